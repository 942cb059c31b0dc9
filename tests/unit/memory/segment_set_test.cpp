#include "memory/segment_set.hpp"

#include <gtest/gtest.h>

#include "memory/granules.hpp"

namespace symccl {
namespace {

constexpr std::size_t kHeap = 200 * kGranule;

TEST(SegmentSet, ContainsWhatWasAdded) {
  SegmentSet set(kHeap);
  EXPECT_EQ(set.granules(), 0u);
  set.add(3 * kGranule, 2 * kGranule);
  EXPECT_EQ(set.granules(), 2u);
  EXPECT_TRUE(set.contains(3 * kGranule, 2 * kGranule));
  EXPECT_TRUE(set.contains(3 * kGranule, 1));
  EXPECT_TRUE(set.contains(5 * kGranule - 1, 1));
  EXPECT_TRUE(set.contains(4 * kGranule - 1, 2)) << "across granules";
  EXPECT_FALSE(set.contains(3 * kGranule - 1, 1));
  EXPECT_FALSE(set.contains(3 * kGranule - 1, 2));
  EXPECT_FALSE(set.contains(5 * kGranule - 1, 2));
  EXPECT_FALSE(set.contains(5 * kGranule, 1));
}

TEST(SegmentSet, EmptyRangesAndRangesOutside) {
  SegmentSet set(kHeap);
  EXPECT_TRUE(set.contains(0, 0));
  EXPECT_TRUE(set.contains(SIZE_MAX, 0));
  set.add(0, kHeap);
  EXPECT_EQ(set.granules(), kHeap / kGranule);
  EXPECT_TRUE(set.contains(0, kHeap));
  EXPECT_FALSE(set.contains(0, kHeap + 1));
  EXPECT_FALSE(set.contains(kHeap, 1));
  EXPECT_FALSE(set.contains(1, SIZE_MAX));
  EXPECT_FALSE(set.contains(SIZE_MAX, 2));
  set.remove(kHeap - kGranule, SIZE_MAX);
  EXPECT_EQ(set.granules(), kHeap / kGranule - 1);
  set.remove(kHeap, kGranule);
  set.add(kHeap, kGranule);
  EXPECT_EQ(set.granules(), kHeap / kGranule - 1);
}

TEST(SegmentSet, RemovesExactlyWhatIsSaid) {
  SegmentSet set(kHeap);
  set.add(0, kHeap);
  set.remove(63 * kGranule, 2 * kGranule);  // across a word
  EXPECT_TRUE(set.contains(0, 63 * kGranule));
  EXPECT_FALSE(set.contains(63 * kGranule, 1));
  EXPECT_FALSE(set.contains(65 * kGranule - 1, 1));
  EXPECT_TRUE(set.contains(65 * kGranule, kHeap - 65 * kGranule));
  EXPECT_FALSE(set.contains(0, kHeap));
}

}  // namespace
}  // namespace symccl
