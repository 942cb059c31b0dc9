#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <thread>

#include "heap_fixture.hpp"
#include "symccl/memory.hpp"

namespace symccl {
namespace {

void* allocate(Pool& pool, std::size_t bytes) {
  const auto block = pool.allocate(bytes);
  EXPECT_TRUE(block) << block.error().message();
  return block ? *block : nullptr;
}

TEST(Pool, BlocksAreAlignedAndCounted) {
  const auto pool = poolOn(50);
  EXPECT_EQ(pool->ordinal(), 50);
  EXPECT_NE(pool->id(), poolOn(50)->id());
  std::vector<void*> blocks;
  std::size_t expected = 0;
  for (const std::size_t bytes : {1, 511, 512, 513, 4099, 1 << 20, (1 << 20) + 1, 3 << 20}) {
    blocks.push_back(allocate(*pool, bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back()) % 512, 0u);
    expected += (bytes + 511) / 512 * 512;
    EXPECT_EQ(pool->bytesInUse(), expected) << bytes;
  }
  EXPECT_EQ(pool->bytesReserved(), (2 + 20) * kMebibyte);
  for (void* block : blocks) pool->free(block);
  EXPECT_EQ(pool->bytesInUse(), 0u);
  EXPECT_EQ(pool->trim(), (2 + 20) * kMebibyte);
  EXPECT_EQ(pool->bytesReserved(), 0u);
  EXPECT_EQ(pagesOf(heapOf(50)), 0u);
  EXPECT_EQ(pool->trim(), 0u);
}

TEST(Pool, RefusesBadSizes) {
  const auto pool = poolOn(50);
  EXPECT_EQ(pool->allocate(0).error().code(), Code::invalid);
  for (const std::size_t bytes : {heapOf(50).bytes() + 1, SIZE_MAX, SIZE_MAX - 511, SIZE_MAX - kGranule}) {
    const auto refused = pool->allocate(bytes);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::memory);
    for (const char* part : {"asked", "free", "limit 256 MiB", "SYMCCL_HEAP_SIZE"}) {
      EXPECT_NE(refused.error().message().find(part), std::string::npos) << refused.error().message();
    }
  }
  EXPECT_EQ(Pool::create(64).error().code(), Code::invalid);
}

TEST(Pool, ReusesAndIsFoundByAddress) {
  const auto pool = poolOn(51), other = poolOn(51);
  auto* block = static_cast<std::byte*>(allocate(*pool, 3000));
  auto* others = static_cast<std::byte*>(allocate(*other, 3000));
  EXPECT_EQ(Pool::find(block), pool);
  EXPECT_EQ(Pool::find(block + 2999), pool);
  EXPECT_EQ(Pool::find(others + 1), other);
  EXPECT_EQ(Pool::find(&pool), nullptr);
  EXPECT_EQ(Pool::find(nullptr), nullptr);
  EXPECT_EQ(Pool::find(heapOf(51).base() + heapOf(51).bytes() - 1), nullptr) << "in the heap, but of no pool";
  EXPECT_TRUE(Pool::freeAnywhere(block));
  EXPECT_EQ(pool->bytesInUse(), 0u);
  EXPECT_EQ(allocate(*pool, 3000), block);
  pool->free(others);
  EXPECT_EQ(other->bytesInUse(), 0u) << "a block goes to its own pool";
  EXPECT_GT(other->trim(), 0u);
  EXPECT_EQ(Pool::find(others), nullptr) << "the segment has gone back";
  int foreign = 0;
  EXPECT_FALSE(Pool::freeAnywhere(&foreign));
  EXPECT_FALSE(Pool::freeAnywhere(nullptr));
}

TEST(Pool, WrongFreesAreIgnored) {
  const auto pool = poolOn(52);
  auto* block = static_cast<std::byte*>(allocate(*pool, 2048));
  auto* kept = static_cast<std::byte*>(allocate(*pool, 2048));
  pool->free(nullptr);
  pool->free(block + 512);
  pool->free(heapOf(52).base() + 200 * kMebibyte);
  pool->free(block);
  pool->free(block);
  EXPECT_EQ(pool->bytesInUse(), 2048u);
  EXPECT_EQ(allocate(*pool, 2048), block);
  EXPECT_NE(allocate(*pool, 2048), kept);
}

TEST(Pool, SnapshotShowsEveryBlock) {
  const auto pool = poolOn(53);
  EXPECT_TRUE(pool->snapshot().empty());
  void* first = allocate(*pool, 1000);
  void* second = allocate(*pool, 512);
  allocate(*pool, 5 * kMebibyte);
  pool->free(first);
  const auto segments = pool->snapshot();
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].address, first);
  EXPECT_EQ(segments[0].bytes, 2 * kMebibyte);
  ASSERT_EQ(segments[0].blocks.size(), 3u);
  const auto& blocks = segments[0].blocks;
  EXPECT_TRUE(!blocks[0].inUse && blocks[1].inUse && !blocks[2].inUse);
  EXPECT_EQ(static_cast<std::byte*>(segments[0].address) + blocks[1].offset, second);
  EXPECT_EQ(blocks[1].bytes, 512u);
  EXPECT_EQ(blocks[2].offset + blocks[2].bytes, 2 * kMebibyte);
  EXPECT_EQ(segments[1].bytes, 20 * kMebibyte);
  EXPECT_EQ(segments[1].blocks.size(), 2u);
}

// Takes and gives back at random, all contents checked; the offsets in the heap that it got.
std::vector<std::size_t> play(int ordinal, unsigned seed) {
  struct Held {
    void* address;
    std::size_t bytes, seed;
  };
  Heap& heap = heapOf(ordinal);
  const auto pool = poolOn(ordinal), second = poolOn(ordinal);
  std::mt19937 random(seed);
  std::vector<Held> held;
  std::vector<std::size_t> trace;
  std::size_t sum = 0;
  for (std::size_t step = 0; step < 600; ++step) {
    const std::size_t bytes = random() % 8 ? 1 + random() % 70'000 : 1 + random() % (14 * kMebibyte);
    if ((held.empty() || random() % 2) && sum + bytes < 90 * kMebibyte) {
      auto& from = random() % 4 ? pool : second;
      void* block = allocate(*from, bytes);
      if (!block) break;
      fillPattern(block, std::min<std::size_t>(bytes, 5000), step);
      static_cast<std::uint8_t*>(block)[bytes - 1] = 0xee;
      trace.push_back(static_cast<std::size_t>(static_cast<std::byte*>(block) - heap.base()));
      held.push_back({block, bytes, step});
      sum += bytes;
    } else if (!held.empty()) {
      const std::size_t which = random() % held.size();
      const Held one = held[which];
      EXPECT_EQ(static_cast<std::uint8_t*>(one.address)[one.bytes - 1], 0xee);
      EXPECT_TRUE(hasPattern(one.address, std::min<std::size_t>(one.bytes, 5000) - 1, one.seed)) << "seed " << seed;
      EXPECT_TRUE(Pool::freeAnywhere(one.address));
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      sum -= one.bytes;
    }
    if (step % 150 == 149) pool->trim();
  }
  for (const Held& one : held) pool->free(one.address);
  return trace;
}

TEST(Pool, EqualProgramsGetEqualOffsetsOnEveryRank) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    const auto one = play(54, seed), other = play(55, seed);
    EXPECT_EQ(one, other) << "seed " << seed;
    EXPECT_GT(one.size(), 100u);
  }
  EXPECT_EQ(heapOf(54).report().used, 0u) << "dead pools keep nothing";
  EXPECT_EQ(pagesOf(heapOf(54)), 0u);
}

TEST(Pool, ExhaustionGivesCachedSegmentsBackFirst) {
  Heap& heap = heapOf(56);
  const auto pool = poolOn(56), other = poolOn(56);
  void* own[] = {allocate(*pool, 50 * kMebibyte), allocate(*pool, 50 * kMebibyte)};
  void* others = allocate(*other, 80 * kMebibyte);
  void* used = allocate(*other, 20 * kMebibyte);
  for (void* block : own) pool->free(block);
  other->free(others);
  fillPattern(used, 20 * kMebibyte, 11);
  // In this order in the heap: 50 + 50 and 80 MiB cached, 20 in use, 56 never handed out.
  void* first = allocate(*pool, 90 * kMebibyte);
  EXPECT_EQ(pool->bytesReserved(), 90 * kMebibyte);
  EXPECT_EQ(other->bytesReserved(), 100 * kMebibyte) << "the own cache was enough";
  void* second = allocate(*pool, 60 * kMebibyte);
  EXPECT_EQ(other->bytesReserved(), 20 * kMebibyte);

  const auto refused = pool->allocate(60 * kMebibyte);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::memory);
  EXPECT_TRUE(hasPattern(used, 20 * kMebibyte, 11));
  EXPECT_EQ(heap.report().used, 170 * kMebibyte);
  void* third = allocate(*pool, 56 * kMebibyte);
  EXPECT_NE(third, nullptr) << "an error changes nothing";
  for (void* block : {first, second, third, used}) Pool::freeAnywhere(block);
}

TEST(Pool, TakesASmallerSegmentWhereTheUsualDoesNotFit) {
  const auto pool = poolOn(57);
  allocate(*pool, 250 * kMebibyte);
  void* block = allocate(*pool, 3 * kMebibyte);  // 6 MiB are left; the usual segment has 20
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(pool->bytesReserved(), 254 * kMebibyte);
}

TEST(Pool, ADeadPoolsBlocksLiveOn) {
  Heap& heap = heapOf(58);
  auto pool = poolOn(58);
  void* first = allocate(*pool, 5000);
  void* second = allocate(*pool, 12 * kMebibyte);
  allocate(*pool, 6000);
  pool->free(allocate(*pool, 30 * kMebibyte));
  fillPattern(first, 5000, 12);
  fillPattern(second, 12 * kMebibyte, 13);
  EXPECT_EQ(heap.report().used, (2 + 12 + 30) * kMebibyte);
  pool.reset();
  EXPECT_EQ(heap.report().used, (2 + 12) * kMebibyte) << "cached segments go at once";
  EXPECT_EQ(Pool::find(first), nullptr);
  EXPECT_TRUE(hasPattern(first, 5000, 12));
  EXPECT_TRUE(hasPattern(second, 12 * kMebibyte, 13));
  EXPECT_TRUE(Pool::freeAnywhere(second));
  EXPECT_EQ(heap.report().used, 2 * kMebibyte);
  EXPECT_EQ(pagesOf(heap), 2 * kMebibyte);
  EXPECT_TRUE(Pool::freeAnywhere(first));
  EXPECT_EQ(heap.report().used, 2 * kMebibyte) << "one block of the segment is still in use";
}

TEST(Pool, FreesFromAnyThread) {
  Heap& heap = heapOf(59);
  auto pool = poolOn(59);
  std::mutex mutex;
  std::vector<std::pair<std::uint64_t*, std::uint64_t>> passed;  // what one thread took and another gives back
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (std::uint64_t i = 0; i < 400; ++i) {
        const std::size_t bytes = random() % 20 ? 8 + random() % 50'000 : 8 + random() % (3 * kMebibyte);
        const auto block = pool->allocate(bytes);
        if (!block) {
          ++wrong;
          continue;
        }
        auto* word = static_cast<std::uint64_t*>(*block);
        const std::uint64_t mark = std::uint64_t{t + 1} << 32 | i;
        *word = mark;
        if (i % 50 == 0) pool->trim();
        const std::lock_guard lock(mutex);
        passed.emplace_back(word, mark);
        if (passed.size() < 20) continue;
        std::swap(passed[random() % passed.size()], passed.back());
        wrong += *passed.back().first != passed.back().second;
        wrong += Pool::find(passed.back().first) != pool;
        wrong += !Pool::freeAnywhere(passed.back().first);
        passed.pop_back();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  pool.reset();
  for (const auto& [word, mark] : passed) {
    EXPECT_EQ(*word, mark);
    EXPECT_TRUE(Pool::freeAnywhere(word));
  }
  EXPECT_EQ(heap.report().used, 0u);
  EXPECT_EQ(pagesOf(heap), 0u);
}

TEST(Pool, PoolsComeAndGoWhileOthersFree) {
  Heap& heap = heapOf(60);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&wrong] {
      for (int i = 0; i < 15; ++i) {
        std::shared_ptr<Pool> pool = *Pool::create(60);
        void* a = *pool->allocate(4096);
        void* b = *pool->allocate(10 * kMebibyte + 1);
        std::thread other([&] { wrong += !Pool::freeAnywhere(a); });
        pool.reset();
        wrong += !Pool::freeAnywhere(b);
        other.join();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(heap.report().used, 0u);
}

TEST(Pool, MemoryOfOperationsStaysWhileTheyRun) {
  Heap& heap = heapOf(61);
  auto pool = poolOn(61);
  auto* block = static_cast<std::byte*>(allocate(*pool, 2 * kMebibyte));
  const auto offset = static_cast<std::size_t>(block - heap.base());
  fillPattern(block, 2 * kMebibyte, 14);
  heap.pin(offset, 2 * kMebibyte);
  pool->free(block);
  EXPECT_EQ(pool->trim(), 20 * kMebibyte);
  EXPECT_TRUE(hasPattern(block, 2 * kMebibyte, 14));
  EXPECT_EQ(heap.report().used, 20 * kMebibyte);
  heap.unpin(offset, 2 * kMebibyte);
  EXPECT_EQ(heap.report().used, 0u);
}

}  // namespace
}  // namespace symccl
