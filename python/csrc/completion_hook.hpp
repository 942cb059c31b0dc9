// The function that a user has called whenever an operation of a group ends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace symccl::pytorch {

/// Runs the user's function on a callback thread, once for each operation. Thread-safe; shared by the group and the
/// operations that are still running.
class CompletionHook : public std::enable_shared_from_this<CompletionHook> {
 public:
  using Function = std::function<void(std::shared_ptr<c10d::WorkInfo>)>;
  using Clock = std::chrono::steady_clock;

  explicit CompletionHook(Function function) : function_(std::move(function)) {}

  /// Every started() is followed by one ended().
  void started();
  void ended(c10d::OpType type, std::uint64_t sequence, Clock::time_point start);
  /// Returns when the function has returned for every operation that was started.
  void wait();

 private:
  const Function function_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::size_t open_ = 0;  // guarded by mutex_
};

}  // namespace symccl::pytorch
