// Pieces of pending work, as events hold on to them.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "device.hpp"

namespace symccl::npu {

/// One piece of work. Once its end is known the work itself is let go of.
class Pending {
 public:
  explicit Pending(Poll poll) : poll_(std::move(poll)) {}

  /// The time of its end; nothing while it is under way.
  std::optional<Clock::time_point> ended() { return ask(false); }
  void wait() { ask(true); }
  /// Whether one of the above has found it ended; asks nobody.
  bool knownEnded() const;

 private:
  std::optional<Clock::time_point> ask(bool wait);

  mutable std::mutex mutex_;  // not held while waiting
  Poll poll_;                 // guarded by mutex_; empty once end_ is known
  std::optional<Clock::time_point> end_;
};

using PendingList = std::vector<std::shared_ptr<Pending>>;

/// What is under way on the stream now, or on all streams of the device.
PendingList pendingOn(const c10::Stream& stream);
PendingList pendingOn(int ordinal);

}  // namespace symccl::npu
