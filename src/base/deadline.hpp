// A point in time by which something must have happened.
#pragma once

#include <chrono>

namespace symccl {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline never() { return Deadline(Clock::time_point::max()); }
  static Deadline in(std::chrono::nanoseconds wait) {
    const auto now = Clock::now();
    return wait > Clock::time_point::max() - now ? never() : Deadline(now + wait);
  }

  bool passed() const { return at_ != Clock::time_point::max() && Clock::now() >= at_; }
  /// Time left, never negative; a day if there is no deadline.
  std::chrono::nanoseconds left() const {
    if (at_ == Clock::time_point::max()) return std::chrono::hours(24);
    const auto now = Clock::now();
    return now >= at_ ? std::chrono::nanoseconds(0) : std::chrono::nanoseconds(at_ - now);
  }
  /// For poll(2) and its like: milliseconds left, rounded up.
  int leftForPoll() const { return static_cast<int>((left() + std::chrono::microseconds(999)) / std::chrono::milliseconds(1)); }
  Clock::time_point at() const { return at_; }

  friend Deadline earlier(Deadline a, Deadline b) { return a.at_ < b.at_ ? a : b; }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace symccl
