// The backend `hccl`: the backend `symccl` for npu tensors, with the names and the checks of torch_npu's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend.hpp"
#include "device.hpp"
#include "options.hpp"

namespace symccl::npu {

/// One rank's end of a process group on npu tensors.
///
/// The memory of npu tensors is the host's, so the operations are the base's, on the tensors themselves. What goes on
/// after its call is pending work of the group's stream: torch.npu.synchronize(), events and queries account for it.
/// Work.wait() blocks the host. Refused arguments throw RuntimeError with torch_npu's text, then rank and group.
class ProcessGroupHCCL final : public pytorch::ProcessGroupSymCCL {
 public:
  /// On the heap of options->device; -1: the current device if that is not 0, else this process's default. Blocks until
  /// every rank has come, or throws. Without the GIL.
  ProcessGroupHCCL(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                   c10::intrusive_ptr<HcclOptions> options);

  const std::string getBackendName() const override { return kHcclName; }

  // collectives.cpp
  Works broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Works allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Works allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
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

  // lists.cpp
  Works allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  Works allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                            const c10d::AllgatherOptions& options) override;
  Works gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  Works scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  Works reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                       const c10d::ReduceScatterOptions& options) override;
  Works alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  Works send(Tensors& tensors, int peer, int tag) override;
  Works recv(Tensors& tensors, int peer, int tag) override;
  Works recvAnysource(Tensors& tensors, int tag) override;
  /// As the base calls without "uneven", but `splits` says how many rows of dimension 0 are each rank's; empty: evenly.
  Works allGatherUneven(at::Tensor& output, at::Tensor& input, const std::vector<std::int64_t>& splits,
                        const c10d::AllgatherOptions& options);
  Works reduceScatterUneven(at::Tensor& output, at::Tensor& input, const std::vector<std::int64_t>& splits,
                            const c10d::ReduceScatterOptions& options);

  // process_group.cpp
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  void registerPool(const pytorch::MemPool& pool, bool symmetric);
  void deregisterPool(const pytorch::MemPool& pool);
  /// Memory of `bytes` that the peers can reach, once for a group; window() is a tensor of int8 in it.
  void registerWindow(std::int64_t bytes, const std::vector<std::uint32_t>& peers);
  at::Tensor window() const;
  /// The same on every rank, and no other group's. Set once at most.
  std::string commName() const;
  void setCommName(const std::string& name);
  const c10::Stream& stream() const { return stream_; }

 private:
  c10::intrusive_ptr<c10d::Backend> makeAlike(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                              c10::intrusive_ptr<pytorch::GroupOptions> options) const override;
  void started(pytorch::OperationWork& work) override;

  // checks.cpp. Throw torch_npu's texts.
  std::string place() const;  // " (rank 1 of group 'tp')"
  void checkInitialized(const char* otherwise) const;
  void checkDense(const at::Tensor& tensor) const;
  void checkSingle(const at::Tensor& tensor) const;
  void checkOne(const Tensors& tensors) const;
  void checkAllDense(const Tensors& tensors) const;
  void checkPair(const at::Tensor& output, const at::Tensor& input) const;
  void checkGathered(const at::Tensor& output, const at::Tensor& input) const;
  void checkScattered(const at::Tensor& output, const at::Tensor& input) const;
  void checkSplits(const std::vector<std::int64_t>& splits, const at::Tensor& tensor) const;
  void checkReduction(const c10d::ReduceOp& op, const at::Tensor& tensor, const char* name) const;
  Tensors rowsOf(const at::Tensor& tensor, const std::vector<std::int64_t>& splits) const;

  const c10::intrusive_ptr<HcclOptions> options_;
  c10::Stream stream_;
  mutable std::mutex mutex_;
  std::string commName_;              // guarded by mutex_
  std::optional<at::Tensor> window_;  // guarded by mutex_
};

}  // namespace symccl::npu
