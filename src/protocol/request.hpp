// What stands behind a Request.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/deadline.hpp"
#include "symccl/communicator.hpp"

namespace symccl {

/// Who can move an operation on: a lane. A thread that waits for an operation does the lane's work itself if nobody
/// else does.
class Driver {
 public:
  virtual ~Driver() = default;
  /// Works until `request` has ended or `deadline` has passed; returns early if another thread is driving or will.
  virtual void drive(const detail::RequestState& request, Deadline deadline) = 0;
};

namespace detail {

/// One operation's end: set once, by whoever drives it; waited for by anyone.
class RequestState {
 public:
  explicit RequestState(std::weak_ptr<Driver> driver = {}) : driver_(std::move(driver)) {}

  bool done() const { return done_.load(std::memory_order_acquire); }
  /// The end. Later calls change nothing. Callbacks run here, without a lock held.
  void finish(Status status, int source = -1, std::size_t bytes = 0);
  /// Drives or waits; Code::timeout once `deadline` has passed, which ends nothing.
  Status wait(Deadline deadline);
  void onDone(std::function<void(const Status&)> callback);
  /// After the end.
  const Status& status() const { return status_; }
  int source() const { return source_; }
  std::size_t bytes() const { return bytes_; }

 private:
  const std::weak_ptr<Driver> driver_;
  std::atomic<bool> done_{false};
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ending_ = false;                                        // guarded by mutex_
  std::vector<std::function<void(const Status&)>> callbacks_;  // guarded by mutex_
  Status status_;
  int source_ = -1;
  std::size_t bytes_ = 0;
};

}  // namespace detail

}  // namespace symccl
