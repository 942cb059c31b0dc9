// Which kind of stores a rank uses for its peers' memory.
#include "collectives/store_tuner.hpp"

#include <gtest/gtest.h>

#include <map>

namespace symccl {
namespace {

using std::chrono::nanoseconds;

constexpr std::size_t kSize = 100'000;

// Runs operations in which each kind takes so long; how often each was used.
std::map<Stores, int> run(StoreTuner& tuner, int operations, std::size_t bytes, nanoseconds ordinary,
                          nanoseconds streaming) {
  std::map<Stores, int> used;
  for (int i = 0; i < operations; ++i) {
    const Stores stores = tuner.choose(Kind::allReduce, bytes);
    ++used[stores];
    tuner.took(Kind::allReduce, bytes, stores, stores == Stores::ordinary ? ordinary : streaming);
  }
  return used;
}

TEST(StoreTuner, SmallAndLargeSizesAreNotTuned) {
  EXPECT_FALSE(StoreTuner::tunes(StoreTuner::kLeast - 1));
  EXPECT_TRUE(StoreTuner::tunes(StoreTuner::kLeast));
  EXPECT_TRUE(StoreTuner::tunes(StoreTuner::kMost - 1));
  EXPECT_FALSE(StoreTuner::tunes(StoreTuner::kMost));
}

TEST(StoreTuner, BeginsWithWhatTheProbeSays) {
  EXPECT_EQ(StoreTuner(kSize).choose(Kind::allReduce, kSize), Stores::streaming);
  EXPECT_EQ(StoreTuner(kSize + 1).choose(Kind::allReduce, kSize), Stores::ordinary);
}

TEST(StoreTuner, TheFasterKindIsUsedAndTheOtherTried) {
  for (const std::size_t probe : {std::size_t{0}, StoreTuner::kMost}) {
    StoreTuner tuner(probe);
    auto used = run(tuner, 320, kSize, nanoseconds(1000), nanoseconds(500));
    EXPECT_GT(used[Stores::streaming], 300);
    EXPECT_GE(used[Stores::ordinary], 4);
    // Another class of sizes knows nothing of this.
    used = run(tuner, 320, 4 * kSize, nanoseconds(500), nanoseconds(1000));
    EXPECT_GT(used[Stores::ordinary], 300);
    EXPECT_EQ(tuner.choose(Kind::allGather, kSize), probe == 0 ? Stores::streaming : Stores::ordinary) << "nor a kind";
  }
}

TEST(StoreTuner, WhatIsClearlySlowerIsTriedLessOften) {
  for (const auto& [slower, tries] : {std::pair{1400, 40}, {1600, 10}}) {
    StoreTuner tuner(0);
    const int used = run(tuner, 1280, kSize, nanoseconds(1000), nanoseconds(slower))[Stores::streaming];
    EXPECT_NEAR(used, tries, 3) << slower;
  }
}

TEST(StoreTuner, NearMemorySpeedOnlyTimeCounts) {
  StoreTuner tuner = StoreTuner::forSharedCpus();
  EXPECT_GT(run(tuner, 320, StoreTuner::kLarge, nanoseconds(1000), nanoseconds(800))[Stores::streaming], 300);
}

TEST(StoreTuner, StreamingHasToBeClearlyFaster) {
  StoreTuner tuner(0);
  EXPECT_GT(run(tuner, 320, kSize, nanoseconds(1000), nanoseconds(950))[Stores::ordinary], 300);
}

TEST(StoreTuner, WhereCpusAreSharedItHasToBeTwiceAsFast) {
  for (const int streaming : {600, 450}) {
    StoreTuner tuner = StoreTuner::forSharedCpus();
    EXPECT_EQ(tuner.choose(Kind::allReduce, kSize), Stores::ordinary);
    auto used = run(tuner, 320, kSize, nanoseconds(1000), nanoseconds(streaming));
    EXPECT_GT(used[streaming < 500 ? Stores::streaming : Stores::ordinary], 300);
  }
}

TEST(StoreTuner, FollowsAMachineThatChanges) {
  StoreTuner tuner(0);
  run(tuner, 320, kSize, nanoseconds(1000), nanoseconds(500));
  run(tuner, 96, kSize, nanoseconds(400), nanoseconds(2000));
  EXPECT_GT(run(tuner, 320, kSize, nanoseconds(400), nanoseconds(2000))[Stores::ordinary], 300);
}

TEST(StoreTuner, OneInterruptionChangesNothing) {
  StoreTuner tuner(0);
  run(tuner, 64, kSize, nanoseconds(1000), nanoseconds(500));
  tuner.took(Kind::allReduce, kSize, Stores::streaming, nanoseconds(10'000'000));
  EXPECT_EQ(run(tuner, 20, kSize, nanoseconds(1000), nanoseconds(500))[Stores::streaming], 20);
}

}  // namespace
}  // namespace symccl
