#include "base/deadline.hpp"

#include <gtest/gtest.h>

namespace symccl {
namespace {

using namespace std::chrono_literals;

TEST(Deadline, NeverNeverPasses) {
  EXPECT_FALSE(Deadline::never().passed());
  EXPECT_EQ(Deadline::never().left(), 24h);
  EXPECT_EQ(Deadline::never().leftForPoll(), 24 * 3600 * 1000);
}

TEST(Deadline, ZeroHasPassed) {
  const Deadline deadline = Deadline::in(0ns);
  EXPECT_TRUE(deadline.passed());
  EXPECT_EQ(deadline.left(), 0ns);
  EXPECT_EQ(deadline.leftForPoll(), 0);
}

TEST(Deadline, FutureHasTimeLeft) {
  const Deadline deadline = Deadline::in(1h);
  EXPECT_FALSE(deadline.passed());
  EXPECT_GT(deadline.left(), 0ns);
  EXPECT_LE(deadline.left(), 1h + 10ms) << "a tick of the coarse clock";
  EXPECT_LE(deadline.leftForPoll(), 3600 * 1000 + 10);
}

TEST(Deadline, NoDeadlineComesEarly) {
  for (const auto wait : {999ms, 1000ms, 60'000ms}) {
    const auto before = Deadline::Clock::now();
    const Deadline deadline = Deadline::in(wait);
    EXPECT_GE(deadline.at(), before + wait) << wait.count();
    EXPECT_LE(deadline.at(), Deadline::Clock::now() + wait + 10ms) << wait.count();
  }
}

TEST(Deadline, TooFarIsNever) {
  EXPECT_EQ(Deadline::in(std::chrono::nanoseconds::max()).at(), Deadline::never().at());
  EXPECT_EQ(Deadline::in(std::chrono::milliseconds::max()).at(), Deadline::never().at());
  EXPECT_EQ(Deadline::in(std::chrono::hours::max()).at(), Deadline::never().at());
}

TEST(Deadline, PollNeverWaitsZeroBeforeTheEnd) {
  const Deadline deadline = Deadline::in(1h);
  while (deadline.leftForPoll() == 0) EXPECT_TRUE(deadline.passed());
  EXPECT_GT(deadline.leftForPoll(), 0);
}

TEST(Deadline, EarlierIsTheLesser) {
  const Deadline soon = Deadline::in(1s), late = Deadline::in(1h);
  EXPECT_EQ(earlier(soon, late).at(), soon.at());
  EXPECT_EQ(earlier(late, soon).at(), soon.at());
  EXPECT_EQ(earlier(late, Deadline::never()).at(), late.at());
}

TEST(Deadline, NegativeHasPassed) {
  EXPECT_TRUE(Deadline::in(-1s).passed());
  EXPECT_TRUE(Deadline::in(std::chrono::milliseconds::min()).passed());
}

// poll(2) takes an int of milliseconds, which ends after 24.8 days.
TEST(Deadline, WeeksAheadFitPoll) {
  for (const int days : {1, 2, 25, 30, 49, 50, 365, 36499}) {
    const Deadline deadline = Deadline::in(std::chrono::hours(24 * days));
    EXPECT_FALSE(deadline.passed()) << days;
    EXPECT_GT(deadline.leftForPoll(), 23 * 3600 * 1000) << days;
  }
}

}  // namespace
}  // namespace symccl
