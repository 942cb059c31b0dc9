// Events: what was under way on a stream when they were recorded.
#pragma once

#include <mutex>

#include "pending.hpp"

namespace symccl::npu {

/// Kernels have ended when they return, so an event is over once the pending work that it recorded is. Thread-safe.
class Event {
 public:
  void record(const c10::Stream& stream);
  bool query();
  /// Blocks until it is over. Without the GIL.
  void synchronize();
  /// When it was, or became, over; throws while it is not.
  Clock::time_point time();

 private:
  PendingList pending();

  std::mutex mutex_;
  Clock::time_point recorded_;  // guarded by mutex_
  PendingList pending_;         // guarded by mutex_
};

}  // namespace symccl::npu
