// Which device a process has, in children so that each starts without heaps of its own.

#include <cstdlib>

#include "heap_fixture.hpp"
#include "in_child.hpp"
#include "symccl/memory.hpp"

namespace symccl {
namespace {

void launcher(const char* localRank, const char* rank) {
  localRank ? ::setenv("LOCAL_RANK", localRank, 1) : ::unsetenv("LOCAL_RANK");
  rank ? ::setenv("RANK", rank, 1) : ::unsetenv("RANK");
}

TEST(DefaultDevice, FollowsTheLauncher) {
  EXPECT_TRUE(passesInChild([] {
    const struct {
      const char *localRank, *rank;
      int device;
    } cases[] = {{nullptr, nullptr, 0}, {"3", nullptr, 3},  {nullptr, "5", 5},   {"3", "5", 3},
                 {"64", nullptr, 0},    {"67", nullptr, 3}, {nullptr, "131", 3}, {"-1", nullptr, 0},
                 {"x", "5", 0},         {"3x", nullptr, 0}, {"", nullptr, 0},    {"99999999999", nullptr, 0}};
    for (const auto& one : cases) {
      launcher(one.localRank, one.rank);
      EXPECT_EQ(defaultDevice(), one.device)
          << (one.localRank ? one.localRank : "-") << " " << (one.rank ? one.rank : "-");
    }
  }));
}

TEST(DefaultDevice, StaysOnceItsHeapIsMade) {
  EXPECT_TRUE(passesInChild([] {
    launcher("30", nullptr);
    EXPECT_EQ(heapOf(-1).ordinal(), 30);
    launcher("31", nullptr);
    EXPECT_EQ(defaultDevice(), 30);
    EXPECT_EQ(heapOf(-1).ordinal(), 30);
    EXPECT_EQ(heapReport()->base, heapOf(30).base());
    const Status refused = setDefaultDevice(31);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::invalid);
    EXPECT_NE(refused.error().message().find("30"), std::string::npos) << refused.error().message();
    EXPECT_TRUE(setDefaultDevice(30)) << "what it is already";
    EXPECT_TRUE(passesInChild([] {
      EXPECT_EQ(defaultDevice(), 30) << "chosen, so it holds for children too";
      EXPECT_TRUE(setDefaultDevice(31)) << "a forked child has made no heap yet";
    }));
  }));
}

TEST(DefaultDevice, AChildThatChoseNothingFollowsItsOwnLauncher) {
  EXPECT_TRUE(passesInChild([] {
    launcher(nullptr, "32");
    EXPECT_EQ(heapOf(-1).ordinal(), 32);
    EXPECT_TRUE(passesInChild([] {
      launcher(nullptr, "33");
      EXPECT_EQ(heapOf(-1).ordinal(), 33);
    }));
  }));
}

TEST(DefaultDevice, IsChosenBeforehand) {
  EXPECT_TRUE(passesInChild([] {
    launcher("34", nullptr);
    for (const int bad : {-1, 64}) EXPECT_EQ(setDefaultDevice(bad).error().code(), Code::invalid);
    ASSERT_TRUE(setDefaultDevice(35));
    EXPECT_EQ(defaultDevice(), 35);
    ASSERT_TRUE(setDefaultDevice(36)) << "again, as no heap is made yet";
    EXPECT_EQ((*Pool::create())->ordinal(), 36);
  }));
}

}  // namespace
}  // namespace symccl
