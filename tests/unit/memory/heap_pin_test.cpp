// A segment that an operation uses stays until the operation has ended.

#include <atomic>
#include <random>
#include <thread>

#include "heap_fixture.hpp"
#include "memory/segment_set.hpp"

namespace symccl {
namespace {

TEST(HeapPin, ReleaseWaitsForTheLastUnpin) {
  Heap& heap = heapOf(27);
  const std::size_t offset = *heap.reserve(4 * kMebibyte, Backing::reserved);
  fillPattern(heap.base() + offset, 4 * kMebibyte, 5);
  heap.pin(offset, 1);
  heap.pin(offset + 2 * kMebibyte - 1, 2);  // both granules
  heap.release(offset);
  EXPECT_TRUE(hasPattern(heap.base() + offset, 4 * kMebibyte, 5));
  EXPECT_NE(*heap.reserve(2 * kMebibyte, Backing::sparse), offset) << "not handed out again yet";
  heap.unpin(offset, 1);
  EXPECT_TRUE(hasPattern(heap.base() + offset, 4 * kMebibyte, 5)) << "still pinned";
  EXPECT_EQ(heap.report().used, 6 * kMebibyte);
  heap.unpin(offset + 2 * kMebibyte - 1, 2);
  EXPECT_EQ(heap.report().used, 2 * kMebibyte);
  EXPECT_EQ(pagesOf(heap), 0u);
  EXPECT_EQ(*heap.reserve(2 * kMebibyte, Backing::sparse), offset);
}

TEST(HeapPin, OtherSegmentsDoNotWait) {
  Heap& heap = heapOf(28);
  const std::size_t pinned = *heap.reserve(2 * kMebibyte, Backing::reserved);
  const std::size_t plain = *heap.reserve(2 * kMebibyte, Backing::reserved);
  heap.pin(pinned, 2 * kMebibyte);
  heap.release(pinned);
  heap.release(pinned);  // a second release of what waits already changes nothing
  heap.release(plain);
  EXPECT_EQ(pagesOf(heap), 2 * kMebibyte);
  EXPECT_EQ(heap.report().used, 2 * kMebibyte);
  heap.unpin(pinned, 2 * kMebibyte);
  EXPECT_EQ(heap.report().used, 0u);
}

TEST(HeapPin, EmptyRangesPinNothing) {
  Heap& heap = heapOf(29);
  const std::size_t offset = *heap.reserve(2 * kMebibyte, Backing::reserved);
  heap.pin(offset, 0);
  heap.release(offset);
  EXPECT_EQ(heap.report().used, 0u);
  heap.unpin(offset, 0);
}

// Operations pin, then look whether the segment is registered; the owner unregisters, then releases. Whoever found it
// registered must read what the owner wrote until it unpins.
TEST(HeapPin, PinnedAndRegisteredMeansThere) {
  Heap& heap = heapOf(37);
  SegmentSet registered(heap.bytes());
  std::atomic<std::size_t> present{SIZE_MAX};  // offset of the segment of the day
  std::atomic<bool> stop{false};
  std::atomic<int> found{0}, lost{0};
  std::vector<std::thread> operations;
  for (int t = 0; t < 2; ++t) {
    operations.emplace_back([&] {
      while (!stop.load()) {
        const std::size_t offset = present.load();
        if (offset == SIZE_MAX) continue;
        heap.pin(offset, kGranule);
        if (registered.contains(offset, kGranule)) {
          auto* word = reinterpret_cast<std::atomic<std::uint64_t>*>(heap.base() + offset + kGranule / 2);
          for (int i = 0; i < 100; ++i) lost += word->load() == 0;
          ++found;
        }
        heap.unpin(offset, kGranule);
      }
    });
  }
  for (int round = 0; round < 100 || (found < 20 && round < 10000); ++round) {
    const auto offset = heap.reserve(kGranule, Backing::reserved);
    ASSERT_TRUE(offset) << offset.error().message();
    reinterpret_cast<std::atomic<std::uint64_t>*>(heap.base() + *offset + kGranule / 2)->store(1);
    registered.add(*offset, kGranule);
    present = *offset;
    if (round % 3 == 0) std::this_thread::yield();
    present = SIZE_MAX;
    registered.remove(*offset, kGranule);
    heap.release(*offset);
  }
  stop = true;
  for (auto& thread : operations) thread.join();
  EXPECT_EQ(lost, 0);
  EXPECT_GT(found, 0);
  EXPECT_EQ(heap.report().used, 0u) << "nothing is left in limbo";
  EXPECT_EQ(pagesOf(heap), 0u);
}

TEST(HeapPin, ManyThreadsReserveAndRelease) {
  Heap& heap = heapOf(38);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&heap, &wrong, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 60; ++i) {
        const std::size_t bytes = (1 + random() % 4) * kGranule;
        const auto backing = random() % 2 ? Backing::reserved : Backing::sparse;
        const auto offset = heap.reserve(bytes, backing);
        if (!offset || !heap.back(*offset, kGranule)) {
          ++wrong;
          continue;
        }
        auto* words = reinterpret_cast<std::uint64_t*>(heap.base() + *offset);
        wrong += words[0] != 0;
        words[0] = words[100] = (std::uint64_t{t} << 32 | static_cast<std::uint64_t>(i)) + 1;
        heap.pin(*offset, bytes);
        std::this_thread::yield();
        heap.release(*offset);
        wrong += words[0] != words[100] || words[0] >> 32 != t;
        heap.unpin(*offset, bytes);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(heap.report().used, 0u);
  EXPECT_EQ(pagesOf(heap), 0u);
}

}  // namespace
}  // namespace symccl
