#include "memory/block_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace symccl {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

TEST(BlockCache, SizesOfBlocksAndSegments) {
  EXPECT_EQ(BlockCache::blockBytes(1), 512u);
  EXPECT_EQ(BlockCache::blockBytes(511), 512u);
  EXPECT_EQ(BlockCache::blockBytes(512), 512u);
  EXPECT_EQ(BlockCache::blockBytes(513), 1024u);
  EXPECT_EQ(BlockCache::segmentBytes(512), 2 * kMebibyte);
  EXPECT_EQ(BlockCache::segmentBytes(kMebibyte), 2 * kMebibyte);
  EXPECT_EQ(BlockCache::segmentBytes(kMebibyte + 512), 20 * kMebibyte);
  EXPECT_EQ(BlockCache::segmentBytes(10 * kMebibyte), 20 * kMebibyte);
  EXPECT_EQ(BlockCache::segmentBytes(10 * kMebibyte + 512), 12 * kMebibyte);
  EXPECT_EQ(BlockCache::segmentBytes(30 * kMebibyte), 30 * kMebibyte);
  EXPECT_EQ(BlockCache::segmentBytes(30 * kMebibyte + 512), 32 * kMebibyte);
}

TEST(BlockCache, CutsAndCoalesces) {
  BlockCache cache;
  EXPECT_FALSE(cache.take(512));
  cache.add({4 * kMebibyte, 2 * kMebibyte}, 512);
  const std::size_t a = *cache.take(512), b = *cache.take(1024), c = *cache.take(512);
  EXPECT_EQ(a, 4 * kMebibyte);
  EXPECT_EQ(b, a + 512);
  EXPECT_EQ(c, b + 1024);
  EXPECT_EQ(cache.bytesInUse(), 2048u);
  EXPECT_EQ(cache.bytesReserved(), 2 * kMebibyte);
  EXPECT_EQ(cache.give(a), 512u);
  EXPECT_EQ(cache.give(c), 512u);
  EXPECT_EQ(cache.blocks(4 * kMebibyte).size(), 3u) << "free, in use, free with the rest";
  EXPECT_EQ(cache.give(b), 1024u);
  ASSERT_EQ(cache.blocks(4 * kMebibyte).size(), 1u);
  EXPECT_EQ(cache.blocks(4 * kMebibyte)[0].bytes, 2 * kMebibyte);
  EXPECT_EQ(cache.bytesInUse(), 0u);
}

TEST(BlockCache, BestFitThenTheOldestFree) {
  BlockCache cache;
  cache.add({0, 2 * kMebibyte}, 512);
  // Blocks that may become free, each followed by one that keeps it apart.
  std::vector<std::size_t> blocks;
  for (const std::size_t bytes : {1024, 512, 512, 512}) {
    blocks.push_back(*cache.take(bytes));
    ASSERT_TRUE(cache.take(512));
  }
  cache.give(blocks[0]);  // 1024: the oldest, but not the best fit
  cache.give(blocks[2]);
  cache.give(blocks[3]);
  cache.give(blocks[1]);  // the lowest address of its size, freed last
  EXPECT_EQ(cache.take(512), blocks[2]);
  EXPECT_EQ(cache.take(512), blocks[3]);
  EXPECT_EQ(cache.take(512), blocks[1]);
  EXPECT_EQ(cache.take(512), blocks[0]) << "now it is the smallest";
}

TEST(BlockCache, KeepsTheRestWhereItIsWorthIt) {
  BlockCache cache;
  cache.add({0, 2 * kMebibyte}, 512);
  ASSERT_TRUE(cache.take(kMebibyte));
  ASSERT_TRUE(cache.take(kMebibyte - 512));
  EXPECT_TRUE(cache.take(512)) << "a rest of 512 bytes is a small block";
  EXPECT_EQ(cache.bytesInUse(), 2 * kMebibyte);

  const std::size_t large = 20 * kMebibyte;
  cache.add({large, large}, 2 * kMebibyte);
  ASSERT_EQ(cache.take(19 * kMebibyte), large);
  EXPECT_EQ(cache.blocks(large).size(), 1u) << "a rest of 1 MiB serves no large request";
  EXPECT_EQ(cache.give(large), large) << "so the block has it";
  ASSERT_EQ(cache.take(19 * kMebibyte - 512), large);
  EXPECT_EQ(cache.blocks(large).size(), 2u);
}

TEST(BlockCache, SmallAndLargeDoNotMix) {
  BlockCache cache;
  cache.add({0, 20 * kMebibyte}, 2 * kMebibyte);
  EXPECT_FALSE(cache.take(512));
  EXPECT_FALSE(cache.take(kMebibyte));
  EXPECT_TRUE(cache.take(kMebibyte + 512));
}

TEST(BlockCache, RefusesWhatIsNoBlock) {
  BlockCache cache;
  EXPECT_EQ(cache.give(0), 0u);
  cache.add({2 * kMebibyte, 2 * kMebibyte}, 512);
  const std::size_t block = *cache.take(1024);
  EXPECT_EQ(cache.give(0), 0u) << "below";
  EXPECT_EQ(cache.give(4 * kMebibyte), 0u) << "above";
  EXPECT_EQ(cache.give(block + 512), 0u) << "inside";
  EXPECT_EQ(cache.give(block + 1024), 0u) << "free";
  EXPECT_EQ(cache.give(block), 1024u);
  EXPECT_EQ(cache.give(block), 0u) << "twice";
}

TEST(BlockCache, RemovesIdleSegments) {
  BlockCache cache;
  cache.add({0, 2 * kMebibyte}, 512);
  cache.add({2 * kMebibyte, 20 * kMebibyte}, 2 * kMebibyte);
  const std::size_t block = *cache.take(2 * kMebibyte);
  auto idle = cache.removeIdle();
  ASSERT_EQ(idle.size(), 1u);
  EXPECT_EQ(idle[0].offset, 0u);
  EXPECT_FALSE(cache.take(512)) << "forgotten";
  cache.give(block);
  idle = cache.removeIdle();
  ASSERT_EQ(idle.size(), 1u);
  EXPECT_EQ(idle[0].offset, 2 * kMebibyte);
  EXPECT_EQ(idle[0].bytes, 20 * kMebibyte);
  EXPECT_EQ(cache.bytesReserved(), 0u);
  EXPECT_TRUE(cache.segments().empty());
}

// A random program against a cache whose segments start at `base`; the offsets that it got, relative to that.
std::vector<std::size_t> play(BlockCache& cache, std::size_t base, unsigned seed) {
  std::mt19937 random(seed);
  std::size_t end = base;
  std::vector<std::pair<std::size_t, std::size_t>> held;  // offset, bytes
  std::vector<std::size_t> trace;
  for (int step = 0; step < 2000; ++step) {
    if (held.empty() || random() % 9 < 5) {
      const std::size_t asked = random() % 4 ? 1 + random() % (3 * kMebibyte / 2) : 1 + random() % (30 * kMebibyte);
      const std::size_t block = BlockCache::blockBytes(asked);
      auto offset = cache.take(block);
      if (!offset) {
        cache.add({end, BlockCache::segmentBytes(block)}, block);
        end += BlockCache::segmentBytes(block);
        offset = cache.take(block);
      }
      held.emplace_back(*offset, block);
      trace.push_back(*offset - base);
    } else {
      const std::size_t which = random() % held.size();
      EXPECT_GE(cache.give(held[which].first), held[which].second);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
    }
    if (step % 97 == 0) cache.removeIdle();
  }
  std::sort(held.begin(), held.end());
  for (std::size_t i = 1; i < held.size(); ++i) {
    EXPECT_LE(held[i - 1].first + held[i - 1].second, held[i].first) << "overlap, seed " << seed;
  }
  for (const auto& [offset, bytes] : held) EXPECT_EQ(offset % kBlockUnit, 0u);
  return trace;
}

TEST(BlockCache, EqualProgramsCutEqualBlocks) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    BlockCache one, other;
    EXPECT_EQ(play(one, 0, seed), play(other, 1234 * 2 * kMebibyte, seed));
  }
}

TEST(BlockCache, BooksStayConsistent) {
  BlockCache cache;
  play(cache, 0, 99);
  std::size_t inUse = 0, reserved = 0;
  for (const auto& segment : cache.segments()) {
    std::size_t at = segment.offset;
    bool previousFree = false;
    for (const auto& block : cache.blocks(segment.offset)) {
      EXPECT_EQ(block.offset, at) << "blocks fill the segment";
      EXPECT_FALSE(previousFree && !block.inUse) << "neighbours that are free are one block";
      previousFree = !block.inUse;
      at += block.bytes;
      if (block.inUse) inUse += block.bytes;
    }
    EXPECT_EQ(at, segment.offset + segment.bytes);
    reserved += segment.bytes;
  }
  EXPECT_EQ(cache.bytesInUse(), inUse);
  EXPECT_EQ(cache.bytesReserved(), reserved);
}

}  // namespace
}  // namespace symccl
