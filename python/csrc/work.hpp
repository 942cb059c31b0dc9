// c10d's handle of a running operation.
#pragma once

#include <ATen/core/ivalue.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "call.hpp"
#include "completion_hook.hpp"
#include "symccl/communicator.hpp"

namespace symccl::pytorch {

/// The Work of one call. Ends when its requests have ended; keeps the tensors until then, whether the user keeps the
/// Work or not. The future's value is the list of output tensors.
///
/// wait(timeout) raises after that long and cancels nothing; without a timeout the operation's own deadline holds.
class OperationWork final : public c10d::Work {
 public:
  using Clock = std::chrono::steady_clock;
  /// When a Work ended; nothing while it is under way. Outlives the Work and does not hold its tensors.
  class End {
   public:
    std::optional<Clock::time_point> time() const {
      const auto ticks = ticks_.load(std::memory_order_acquire);
      return ticks == 0 ? std::nullopt : std::optional(Clock::time_point(Clock::duration(ticks)));
    }
    void set() { ticks_.store(Clock::now().time_since_epoch().count(), std::memory_order_release); }

   private:
    std::atomic<Clock::rep> ticks_{0};
  };

  OperationWork(int rank, const Call& call, std::uint64_t sequence);
  ~OperationWork() override { reportEnd(); }

  /// Has `hook` told of the end. Before anybody else knows this Work.
  void reportTo(std::shared_ptr<CompletionHook> hook);
  /// Sets what result() and the future hold. Before anybody else knows this Work.
  void setOutputs(std::vector<at::Tensor> outputs) { outputs_ = std::move(outputs); }
  /// The operation ended within the call. Before anybody else knows this Work.
  void endInCall() {
    finish();
    reportEnd();
  }
  /// The operation goes on: `requests` of `communicator` end it, then the results in `buffers` are copied back.
  /// `timeout` is for texts.
  void start(const std::shared_ptr<Communicator>& communicator, std::vector<Request> requests, Buffers buffers,
             std::chrono::milliseconds timeout);

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override { return sequence_; }
  /// For who wants to know the time of the end. From any thread.
  std::shared_ptr<const End> watchEnd();

 private:
  void waitForRequests();
  void waitAtMost(std::chrono::milliseconds timeout);
  void requestEnded(const Status& status);
  void complete(std::exception_ptr failure);
  void reportEnd();

  const char* const name_;
  const std::uint64_t sequence_;
  std::vector<at::Tensor> outputs_;
  std::chrono::milliseconds timeout_{0};
  std::vector<Request> requests_;  // not changed once started_
  std::weak_ptr<Communicator> communicator_;
  Buffers buffers_{true};
  std::atomic<std::size_t> open_{0};
  std::shared_ptr<CompletionHook> hook_;
  CompletionHook::Clock::time_point start_;  // only with a hook
  // Guarded by mutex_:
  bool started_ = false;
  bool completing_ = false;
  bool ended_ = false;
  std::shared_ptr<End> end_;    // made by who watches it
  std::exception_ptr failure_;  // of the first request that failed
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace symccl::pytorch
