#include "memory/offset_allocator.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace symccl {
namespace {

constexpr std::size_t kUnit = 100;

TEST(OffsetAllocator, RoundsUpAndTakesTheLowest) {
  OffsetAllocator allocator(10 * kUnit, kUnit);
  EXPECT_EQ(allocator.take(1), 0u);
  EXPECT_EQ(allocator.take(kUnit), 1 * kUnit);
  EXPECT_EQ(allocator.take(kUnit + 1), 2 * kUnit);
  EXPECT_EQ(allocator.take(2 * kUnit - 1), 4 * kUnit);
  EXPECT_EQ(allocator.sizeAt(0), kUnit);
  EXPECT_EQ(allocator.sizeAt(2 * kUnit), 2 * kUnit);
  EXPECT_EQ(allocator.give(1 * kUnit), kUnit);
  EXPECT_EQ(allocator.take(2 * kUnit), 6 * kUnit) << "the hole is too small";
  EXPECT_EQ(allocator.take(kUnit), 1 * kUnit) << "the lowest that fits";
  EXPECT_EQ(allocator.free(), 2 * kUnit);
}

TEST(OffsetAllocator, RefusesWhatDoesNotFit) {
  OffsetAllocator allocator(3 * kUnit + 99, kUnit);
  EXPECT_EQ(allocator.free(), 3 * kUnit) << "whole granules only";
  EXPECT_FALSE(allocator.take(0));
  EXPECT_FALSE(allocator.take(3 * kUnit + 1));
  EXPECT_FALSE(allocator.take(SIZE_MAX)) << "rounding up must not wrap";
  EXPECT_FALSE(allocator.take(SIZE_MAX - kUnit + 1));
  EXPECT_EQ(allocator.take(3 * kUnit), 0u);
  EXPECT_FALSE(allocator.take(1));
  EXPECT_EQ(allocator.largestFree(), 0u);
  EXPECT_FALSE(OffsetAllocator(kUnit - 1, kUnit).take(1));
}

TEST(OffsetAllocator, KnowsOnlyWhatItHandedOut) {
  OffsetAllocator allocator(10 * kUnit, kUnit);
  ASSERT_EQ(allocator.take(3 * kUnit), 0u);
  EXPECT_EQ(allocator.give(kUnit), 0u) << "the middle of a range";
  EXPECT_EQ(allocator.sizeAt(kUnit), 0u);
  EXPECT_EQ(allocator.give(5 * kUnit), 0u);
  EXPECT_EQ(allocator.give(0), 3 * kUnit);
  EXPECT_EQ(allocator.give(0), 0u) << "twice";
  EXPECT_EQ(allocator.free(), 10 * kUnit);
}

TEST(OffsetAllocator, CoalescesOnBothSides) {
  OffsetAllocator allocator(3 * kUnit, kUnit);
  for (std::size_t i = 0; i < 3; ++i) ASSERT_EQ(allocator.take(1), i * kUnit);
  allocator.give(0);
  allocator.give(2 * kUnit);
  EXPECT_EQ(allocator.largestFree(), kUnit);
  allocator.give(kUnit);
  EXPECT_EQ(allocator.largestFree(), 3 * kUnit);
  EXPECT_EQ(allocator.take(3 * kUnit), 0u);
}

// One flag a granule: the obvious way, against which the maps are checked.
class NaiveModel {
 public:
  explicit NaiveModel(std::size_t granules) : owner_(granules, -1) {}
  std::optional<std::size_t> take(std::size_t granules, int owner) {
    for (std::size_t first = 0; first + granules <= owner_.size(); ++first) {
      std::size_t run = 0;
      while (run < granules && owner_[first + run] < 0) ++run;
      if (run < granules) continue;
      for (std::size_t i = 0; i < granules; ++i) owner_[first + i] = owner;
      return first * kUnit;
    }
    return std::nullopt;
  }
  void give(int owner) {
    for (int& one : owner_) one = one == owner ? -1 : one;
  }
  std::size_t free() const { return static_cast<std::size_t>(std::count(owner_.begin(), owner_.end(), -1)) * kUnit; }
  std::size_t largestFree() const {
    std::size_t largest = 0, run = 0;
    for (const int owner : owner_) largest = std::max(largest, run = owner < 0 ? run + 1 : 0);
    return largest * kUnit;
  }

 private:
  std::vector<int> owner_;
};

TEST(OffsetAllocator, AgreesWithTheNaiveModel) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    OffsetAllocator allocator(61 * kUnit, kUnit);
    NaiveModel model(61);
    std::vector<std::pair<int, std::size_t>> held;
    for (int step = 0; step < 1000; ++step) {
      if (held.empty() || random() % 5 < 3) {
        const std::size_t bytes = 1 + random() % (7 * kUnit);
        const auto expected = model.take((bytes + kUnit - 1) / kUnit, step);
        ASSERT_EQ(allocator.take(bytes), expected) << "seed " << seed << " step " << step;
        if (expected) held.emplace_back(step, *expected);
      } else {
        const std::size_t which = random() % held.size();
        ASSERT_GT(allocator.give(held[which].second), 0u);
        model.give(held[which].first);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      }
      ASSERT_EQ(allocator.free(), model.free());
      ASSERT_EQ(allocator.largestFree(), model.largestFree());
    }
  }
}

}  // namespace
}  // namespace symccl
