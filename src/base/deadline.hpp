// A point in time by which something must have happened.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>

namespace symccl {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline never() { return Deadline(Clock::time_point::max()); }
  /// `wait` from now on: now if it is negative, never if it is a hundred years or more.
  template <class Rep, class Period>
  static Deadline in(std::chrono::duration<Rep, Period> wait) {
    if (wait >= std::chrono::hours(24 * 365 * 100)) return never();
    const auto now = wait >= std::chrono::seconds(1) ? coarseNow() : Clock::now();
    return wait <= wait.zero() ? Deadline(now) : Deadline(now + std::chrono::duration_cast<Clock::duration>(wait));
  }

  bool isNever() const { return at_ == Clock::time_point::max(); }
  bool passed() const { return !isNever() && Clock::now() >= at_; }
  /// Time left, never negative; at most a day, so that it fits wherever it is passed on to.
  std::chrono::nanoseconds left() const {
    constexpr std::chrono::nanoseconds kMost = std::chrono::hours(24);
    if (isNever()) return kMost;
    return std::clamp<std::chrono::nanoseconds>(at_ - Clock::now(), std::chrono::nanoseconds(0), kMost);
  }
  /// For poll(2) and its like: milliseconds left, rounded up; at most a day.
  int leftForPoll() const { return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left()).count()); }
  Clock::time_point at() const { return at_; }

  friend Deadline earlier(Deadline a, Deadline b) { return a.at_ < b.at_ ? a : b; }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}

  // Up to a tick of the kernel (1 to 10 ms) behind, in a quarter of the time: it counts in operations of 0.3 us.
  static Clock::time_point coarseNow() {
#ifdef CLOCK_MONOTONIC_COARSE
    timespec now;
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return Clock::time_point(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec) + kTick);
#else
    return Clock::now();
#endif
  }
  static constexpr std::chrono::milliseconds kTick{10};  // so that no deadline comes early

  Clock::time_point at_;
};

}  // namespace symccl
