#include "process_group.hpp"

#include <ATen/ops/empty.h>
#include <pybind11/pybind11.h>

#include <utility>

namespace symccl::npu {
namespace {

using pytorch::OperationWork;

constexpr std::size_t kLongestCommName = 127;

/// What the base is made with: checked, on a device that exists.
c10::intrusive_ptr<HcclOptions> completed(c10::intrusive_ptr<HcclOptions> options, int rank) {
  options->check(placeOf(rank, options->group_name));
  options->groupId = options->group_name;
  options->algorithm = options->text("hccl_algo");
  if (options->device < 0 && currentDevice() != 0) options->device = currentDevice();
  return options;
}

}  // namespace

ProcessGroupHCCL::ProcessGroupHCCL(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                   c10::intrusive_ptr<HcclOptions> options)
    : ProcessGroupSymCCL(store, rank, size, completed(options, rank)),
      options_(std::move(options)),
      stream_(defaultStream(0)) {
  if (options_->device < 0) options_->device = defaultDevice();
  stream_ = newStream(options_->device, options_->highPriority ? kGreatestPriority : kLeastPriority);
  if (const auto timeout = options_->operationTimeout()) setTimeout(*timeout);
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupHCCL::makeAlike(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                              int size,
                                                              c10::intrusive_ptr<pytorch::GroupOptions> options) const {
  auto made = c10::dynamic_intrusive_pointer_cast<HcclOptions>(options);
  TORCH_CHECK_TYPE(made != nullptr, "hccl: the options of a group must be ProcessGroupHCCL.Options", place());
  return c10::make_intrusive<ProcessGroupHCCL>(store, rank, size, std::move(made));
}

// Holds no tensors, as addPending() asks; a Work lives at least until it has ended.
void ProcessGroupHCCL::started(OperationWork& work) {
  if (work.isCompleted()) return;
  using Weak = c10::weak_intrusive_ptr<OperationWork>;
  addPending(stream_,
             [end = work.watchEnd(), weak = Weak(c10::intrusive_ptr<OperationWork>::reclaim_copy(&work))](
                 bool wait) -> std::optional<Clock::time_point> {
               if (!wait || end->time()) return end->time();
               if (const auto alive = weak.lock()) {
                 try {
                   alive->wait();
                 } catch (const pybind11::error_already_set&) {
                   throw;  // Ctrl-C
                 } catch (...) {
                   // The error is told to who waits for the Work.
                 }
               }
               return end->time().value_or(Clock::now());
             });
}

at::Tensor ProcessGroupHCCL::allocateTensor(long size, at::TensorOptions options) {
  TORCH_CHECK_VALUE(size >= 0, "hccl: allocate_tensor: a tensor cannot have ", size, " elements", place());
  TORCH_CHECK_VALUE(options.device().type() == kNpu, "hccl: allocate_tensor: device is ", options.device(),
                    " (accepted: npu)", place());
  PoolScope scope(tensorPool());
  scope.enter();
  return at::empty({size}, options);
}

void ProcessGroupHCCL::registerPool(const pytorch::MemPool& pool, bool symmetric) {
  checkInitialized(
      "HCCL communicator has not been initialized before mem pool creation. You can pass `device_id` to "
      "init_process_group to eagerly initialize it.");
  TORCH_CHECK(symmetric,
              "HCCLComm::registerSegment: non-symmetric segment registration (symmetric=false) is not supported "
              "currently. Please register the segment with symmetric=true. ",
              place());
  const auto communicator = this->communicator();
  std::uint64_t added = 0;
  for (const SegmentReport& segment : pool.snapshot()) {
    if (!communicator->isRegistered(segment.address, segment.bytes)) added += segment.bytes;
  }
  const std::uint64_t before = communicator->report().registeredBytes;
  TORCH_CHECK(before + added <= options_->mostRegistered(), "hccl: register_mem_pool: the pool has ", added,
              " bytes to register, ", before, " are registered, the most is ", options_->mostRegistered(),
              " (raise it with hccl_config's hccl_sym_win_max_mem_size_per_rank, in GB)", place());
  registerMemPool(pool, true);
}

void ProcessGroupHCCL::deregisterPool(const pytorch::MemPool& pool) {
  checkInitialized("HCCL communicator has not been initialized before mem pool deregistration.");
  const Status status = communicator()->deregisterPool(pool.pool());
  TORCH_CHECK(status, "Trying to unregister a pool that was not previously registered", place());
}

void ProcessGroupHCCL::registerWindow(std::int64_t bytes, const std::vector<std::uint32_t>& peers) {
  TORCH_CHECK(bytes > 0, "Window memory must be greater than 0.", place());
  for (const std::uint32_t peer : peers) {
    TORCH_CHECK_VALUE(peer < static_cast<std::uint32_t>(getSize()), "hccl: window: peer rank ", peer,
                      " is not in the group of ", getSize(), " ranks", place());
  }
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(!window_, "Window memory cannot be registered repeatedly.", place());
  const c10::Device device(kNpu, static_cast<c10::DeviceIndex>(options_->device));
  window_ = allocateTensor(bytes, at::TensorOptions(device).dtype(at::kChar));
}

at::Tensor ProcessGroupHCCL::window() const {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(window_, "window memory must be registered before get.", place());
  return *window_;
}

std::string ProcessGroupHCCL::commName() const {
  const std::lock_guard lock(mutex_);
  return commName_.empty() ? "hccl_" + options_->group_name : commName_;
}

void ProcessGroupHCCL::setCommName(const std::string& name) {
  TORCH_CHECK(!name.empty() && name.size() <= kLongestCommName, "The length of the name must be between 1 and ",
              kLongestCommName, ", Invalid hcclCommName:", name, place());
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(commName_.empty() || commName_ == name,
              "The current ProcessGroup has already set the name and cannot be duplicated, Invalid hcclCommName:", name,
              ", current hcclCommName:", commName_, place());
  commName_ = name;
}

}  // namespace symccl::npu
