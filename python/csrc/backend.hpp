// The PyTorch backend: c10d's interface on top of a communicator.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <unordered_map>
#include <vector>

#include "call.hpp"
#include "mem_pool.hpp"
#include "symccl/communicator.hpp"
#include "work.hpp"

namespace symccl::pytorch {

inline constexpr const char* kBackendName = "symccl";

/// What a user may pass as pg_options, and what a group reports as its options.
struct GroupOptions : c10d::Backend::Options {
  explicit GroupOptions(std::chrono::milliseconds limit = kBackendDefaultTimeout, int ordinal = -1,
                        const char* backendName = kBackendName)
      : c10d::Backend::Options(backendName, limit), device(ordinal) {}
  virtual c10::intrusive_ptr<GroupOptions> copy() const { return c10::make_intrusive<GroupOptions>(*this); }
  /// Takes over what c10d decides when it creates a group.
  void take(const c10d::DistributedBackendOptions& given);

  int device;                 ///< heap ordinal; -1: this process's default
  std::string algorithm;      ///< CommunicatorOptions::algorithm
  bool highPriority = false;  ///< CommunicatorOptions::highPriority
};

/// One rank's end of a process group on CPU tensors, or those of a device whose memory is the host's (addHostDevice).
///
/// A call with asyncOp == false on an idle group runs in the caller's thread and returns a Work that has ended; it
/// throws what went wrong. Other calls return at once. Arguments are checked before anything is announced to other
/// ranks: a call that throws ValueError or TypeError leaves the group usable. Errors in between ranks finish the group.
class ProcessGroupSymCCL : public c10d::Backend {
 public:
  using Works = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;

  /// Creates the communicator: blocks until every rank has come, or throws. Without the GIL.
  ProcessGroupSymCCL(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                     c10::intrusive_ptr<GroupOptions> options);
  ~ProcessGroupSymCCL() override;

  const std::string getBackendName() const override { return kBackendName; }
  bool supportsSplitting() const override { return true; }
  bool supportsCoalescing() const override { return true; }

  // collectives.cpp
  Works broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Works allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Works allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  Works reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Works _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  Works allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                        const c10d::AllgatherOptions& options) override;
  Works _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  Works reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                        const c10d::ReduceScatterOptions& options) override;
  Works alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& outputSplits,
                      std::vector<std::int64_t>& inputSplits, const c10d::AllToAllOptions& options) override;
  Works barrier(const c10d::BarrierOptions& options) override;

  // list_collectives.cpp
  Works allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  Works allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                            const c10d::AllgatherOptions& options) override;
  Works gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  Works scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  Works reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                       const c10d::ReduceScatterOptions& options) override;
  Works alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;

  // sparse.cpp: blocks, also when asyncOp is set, because each step's sizes come from the one before.
  Works allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;

  // monitored_barrier.cpp
  void monitoredBarrier(const c10d::BarrierOptions& options, bool waitAllRanks) override;

  // point_to_point.cpp
  Works send(Tensors& tensors, int peer, int tag) override;
  Works recv(Tensors& tensors, int peer, int tag) override;
  Works recvAnysource(Tensors& tensors, int tag) override;
  void startCoalescing() override;
  Works endCoalescing() override;

  // pools.cpp
  std::shared_ptr<c10::Allocator> getMemAllocator() override;
  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  void registerMemPool(const MemPool& pool, bool symmetric);
  void deregisterMemPool(const MemPool& pool);
  bool isSymmetric(const at::Tensor& tensor);
  /// Collective: throws on every rank, naming those that differ, unless the pool has segments of equal sizes
  /// everywhere.
  void verifyPool(const MemPool& pool);

  // backend.cpp
  void setSequenceNumberForGroup() override {}  // starts at 0 on every rank
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override;
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& options) override;
  c10d::ErrorType getError() override;
  void abort() override;
  void shutdown() override;
  c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& options, const int& rank,
                                          const int& size) override;
  std::unordered_map<std::string, std::uint64_t> getMemoryStats() override;
  void registerOnCompletionHook(CompletionHook::Function&& hook) override;
  void waitForPendingWorks() override;
  void enableCollectivesTiming() override {}
  /// The live options, which setTimeout changes.
  const c10::intrusive_ptr<GroupOptions>& options() const { return options_; }
  /// The communicator, or an error if shutdown() was called.
  std::shared_ptr<Communicator> communicator() const;
  /// Ends every group of this process; called when the interpreter exits, without the GIL.
  static void shutdownAll();

 protected:
  /// A group of the same class, for split() and merge().
  virtual c10::intrusive_ptr<c10d::Backend> makeAlike(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                      c10::intrusive_ptr<GroupOptions> options) const;
  /// Told of every operation that goes on after its call.
  virtual void started(OperationWork&) {}
  /// The registered pool that allocateTensor() takes from.
  std::shared_ptr<MemPool> tensorPool();

 private:
  /// What shutdown() lets go of.
  struct Remains {
    std::shared_ptr<Communicator> communicator;
    std::shared_ptr<MemPool> pool;
  };
  Remains takeRemains();
  c10::intrusive_ptr<GroupOptions> optionsLike(const c10d::Backend::Options* given) const;
  /// What was called between startCoalescing() and endCoalescing(): one Work, started as a whole.
  struct Batch {
    Call call{"symccl:coalesced", c10d::OpType::COALESCED, c10d::kUnsetTimeout, true, true};
    std::vector<Message> messages;
    c10::intrusive_ptr<OperationWork> work;
  };

  c10::intrusive_ptr<OperationWork> makeWork(const Call& call, std::uint64_t sequence) const;
  Call begin(const char* title, c10d::OpType type, std::chrono::milliseconds timeout, bool async) const {
    return Call(title, type, timeout, async, async || batching());
  }
  /// Runs or starts the call's steps; every collective ends here.
  Works issue(Call& call);
  Works run(Call& call, std::uint64_t sequence);
  Works start(Call& call, std::uint64_t sequence);
  Works issueRecv(Call& call, const Tensors& tensors, int peer, int tag);
  /// Starts one send or receive.
  Works issueMessage(Call& call, const Message& message);
  /// Adds the call to the batch that this thread has opened.
  Works addToBatch(Call& call);
  bool batching() const { return batchOwner_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }
  void addAllReduce(Call& call, const at::Tensor& tensor, const c10d::ReduceOp& op);
  void addAllGather(Call& call, const at::Tensor& output, const at::Tensor& input);
  void addReduceScatter(Call& call, const at::Tensor& output, const at::Tensor& input, const c10d::ReduceOp& op);
  void addAllGatherV(Call& call, const Tensors& outputs, const at::Tensor& input);
  std::vector<std::int64_t> gatherShapes(const at::Tensor& input, std::chrono::milliseconds timeout);
  at::Tensor gatherRows(const at::Tensor& rows, const std::vector<std::int64_t>& counts,
                        std::chrono::milliseconds timeout);
  void runOrThrow(const Operation& operation, std::chrono::milliseconds timeout);
  static CallOptions callOptions(std::chrono::milliseconds timeout);
  std::chrono::milliseconds timeoutOf(std::chrono::milliseconds timeout) const;

  const c10::intrusive_ptr<GroupOptions> options_;
  const int process_;  // that made this group; a forked child of it has another
  mutable std::mutex mutex_;
  std::shared_ptr<Communicator> communicator_;  // guarded by mutex_; null after shutdown()
  std::atomic<std::uint64_t> sequence_{0};      // collectives issued
  std::atomic<std::thread::id> batchOwner_{};   // the thread between startCoalescing() and endCoalescing()
  std::unique_ptr<Batch> batch_;                // the owner's
  std::shared_ptr<CompletionHook> hook_;        // set before the first operation, if at all
  std::shared_ptr<MemPool> tensorPool_;         // guarded by mutex_; allocateTensor's
};

}  // namespace symccl::pytorch
