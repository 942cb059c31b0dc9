#include "memory/heap_size.hpp"

#include <gtest/gtest.h>

#include "memory/granules.hpp"

namespace symccl {
namespace {

constexpr std::size_t kGibibyte = std::size_t{1} << 30;

HeapLimits unlimited(std::size_t asked) { return {asked, SIZE_MAX, SIZE_MAX, 2}; }

TEST(HeapSize, AsAskedWhereNothingLimits) {
  const auto size = fitHeap(unlimited(16 * kGibibyte));
  ASSERT_TRUE(size);
  EXPECT_EQ(size->bytes, 16 * kGibibyte);
  EXPECT_EQ(size->raise, "SYMCCL_HEAP_SIZE");
}

TEST(HeapSize, ShrinksToTheShareOfALimitedAddressSpace) {
  HeapLimits limits = unlimited(16 * kGibibyte);
  limits.addressSpace = 4 * kGibibyte;
  const auto size = fitHeap(limits);
  ASSERT_TRUE(size);
  EXPECT_EQ(size->bytes, kGibibyte);
  EXPECT_NE(size->raise.find("ulimit -v"), std::string::npos) << size->raise;

  limits.addressSpace = 100 * kGibibyte;
  EXPECT_EQ(fitHeap(limits)->bytes, 16 * kGibibyte) << "a limit that is far enough away changes nothing";
}

TEST(HeapSize, ShrinksToTheLimitOfFiles) {
  HeapLimits limits = unlimited(16 * kGibibyte);
  limits.fileSize = kGibibyte + 12345;
  const auto size = fitHeap(limits);
  ASSERT_TRUE(size);
  EXPECT_EQ(size->bytes, kGibibyte) << "whole granules";
  EXPECT_NE(size->raise.find("ulimit -f"), std::string::npos) << size->raise;
}

TEST(HeapSize, TooLittleIsAnErrorThatNamesTheLimit) {
  HeapLimits limits = unlimited(16 * kGibibyte);
  limits.addressSpace = 4 * kHeapLeast;
  EXPECT_EQ(fitHeap(limits)->bytes, kHeapLeast);
  limits.addressSpace -= 4;
  const auto refused = fitHeap(limits);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::memory);
  for (const char* part : {"62 MiB", "64 MiB", "ulimit -v"}) {
    EXPECT_NE(refused.error().message().find(part), std::string::npos) << refused.error().message();
  }
}

}  // namespace
}  // namespace symccl
