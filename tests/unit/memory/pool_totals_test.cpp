// What all pools of a heap hold together.

#include <cstdlib>

#include "heap_fixture.hpp"
#include "in_child.hpp"
#include "symccl/memory.hpp"

namespace symccl {
namespace {

TEST(PoolTotals, AHeapThatWasNotMadeHasNone) {
  EXPECT_TRUE(passesInChild([] {  // has made none yet
    EXPECT_EQ(poolTotals(23).blockBytes.added, 0u);
    resetPoolPeaks(23);
    EXPECT_EQ(Heap::ofDeviceIfMade(23), nullptr);
  }));
}

TEST(PoolTotals, CountAllPoolsOfAHeap) {
  const auto one = poolOn(23);
  auto other = poolOn(23);
  void* small = *one->allocate(700);
  void* large = *other->allocate(3 * kMebibyte + 1);
  PoolTotals totals = poolTotals(23);
  EXPECT_EQ(totals.blocks.current, 2u);
  EXPECT_EQ(totals.blockBytes.current, 1024 + 3 * kMebibyte + 512);
  EXPECT_EQ(totals.segments.current, 2u);
  EXPECT_EQ(totals.segmentBytes.current, (2 + 20) * kMebibyte);
  EXPECT_EQ(poolTotals(26).blocks.added, 0u);

  one->free(small);
  totals = poolTotals(23);
  EXPECT_EQ(totals.blocks.current, 1u);
  EXPECT_EQ(totals.blocks.peak, 2u);
  EXPECT_EQ(totals.blockBytes.peak, 1024 + 3 * kMebibyte + 512);
  EXPECT_EQ(totals.segmentBytes.current, (2 + 20) * kMebibyte) << "still cached";
  EXPECT_EQ(one->trim(), 2 * kMebibyte);
  EXPECT_EQ(poolTotals(23).segmentBytes.current, 20 * kMebibyte);

  other.reset();
  EXPECT_EQ(poolTotals(23).blockBytes.current, 3 * kMebibyte + 512) << "a dead pool's block is in use";
  EXPECT_TRUE(Pool::freeAnywhere(large));
  totals = poolTotals(23);
  EXPECT_EQ(totals.blockBytes.current, 0u);
  EXPECT_EQ(totals.segments.current, 0u);
  EXPECT_EQ(totals.segmentBytes.current, 0u);
  EXPECT_EQ(totals.segments.added, 2u);
  EXPECT_EQ(totals.segmentBytes.peak, (2 + 20) * kMebibyte);
}

TEST(PoolTotals, PeaksAreReset) {
  const auto pool = poolOn(24);
  void* kept = *pool->allocate(512);
  pool->free(*pool->allocate(5 * kMebibyte));
  EXPECT_EQ(poolTotals(24).blockBytes.peak, 5 * kMebibyte + 512);
  resetPoolPeaks(24);
  PoolTotals totals = poolTotals(24);
  EXPECT_EQ(totals.blockBytes.peak, 512u);
  EXPECT_EQ(totals.blocks.peak, 1u);
  EXPECT_EQ(totals.segmentBytes.peak, (2 + 20) * kMebibyte);
  EXPECT_EQ(totals.blockBytes.added, 5 * kMebibyte + 512) << "sums stay";
  pool->free(kept);
}

TEST(EmulatedDevices, AsManyAsTheHostHasRanks) {
  EXPECT_TRUE(passesInChild([] {
    const struct {
      const char* ranks;
      int devices;
    } cases[] = {{nullptr, 8}, {"1", 8}, {"8", 8}, {"12", 12}, {"64", 64}, {"100", 64}, {"x", 8}, {"", 8}};
    for (const auto& one : cases) {
      one.ranks ? ::setenv("LOCAL_WORLD_SIZE", one.ranks, 1) : ::unsetenv("LOCAL_WORLD_SIZE");
      EXPECT_EQ(*emulatedDevices(), one.devices) << (one.ranks ? one.ranks : "-");
    }
  }));
}

}  // namespace
}  // namespace symccl
