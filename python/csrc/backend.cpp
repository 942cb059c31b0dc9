#include "backend.hpp"

#include <Python.h>
#include <unistd.h>

#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

#include "errors.hpp"
#include "interrupt.hpp"
#include "store_adapter.hpp"

namespace symccl::pytorch {
namespace {

constexpr int kDevices = 64;

// The groups that are alive, so that their threads can be ended before the interpreter is gone. Never destroyed.
struct LiveGroups {
  std::mutex mutex;
  std::set<ProcessGroupSymCCL*> groups;
};
LiveGroups& liveGroups() {
  static auto* groups = new LiveGroups;
  return *groups;
}

// A communicator's threads may be about to take the GIL in a callback, so nobody may wait for them while holding it.
void releaseWithoutGil(std::shared_ptr<Communicator> communicator) {
  if (communicator == nullptr || !Py_IsInitialized() || !PyGILState_Check()) return;
  PyThreadState* state = PyEval_SaveThread();
  communicator.reset();
  PyEval_RestoreThread(state);
}

// Ranks of a host should have different ordinals. Launchers say LOCAL_RANK; without it the rank must do.
void chooseDevice(const GroupOptions& options, int rank) {
  if (options.device >= 0 || std::getenv("LOCAL_RANK") != nullptr) return;
  const std::uint64_t global = options.global_ranks_in_group.empty() ? rank : options.global_ranks_in_group[rank];
  // Refused when the heap is there already, made for a pool or an earlier group: then that one is used.
  (void)setDefaultDevice(static_cast<int>(global % kDevices));
}

std::int64_t elementsOf(const std::vector<at::Tensor>& tensors) {
  std::int64_t count = 0;
  for (const auto& tensor : tensors) count += tensor.numel();
  return count;
}

}  // namespace

void GroupOptions::take(const c10d::DistributedBackendOptions& given) {
  const double seconds = std::min<double>(given.timeout.count(), 1e9);  // they come as float
  timeout = std::chrono::milliseconds(std::llround(seconds * 1000));
  group_name = given.group_id;
  global_ranks_in_group.assign(given.global_ranks_in_group.begin(), given.global_ranks_in_group.end());
  for (int rank = 0; given.global_ranks_in_group.empty() && rank < given.group_size; ++rank) {
    global_ranks_in_group.push_back(rank);  // WORLD's list is empty
  }
}

ProcessGroupSymCCL::ProcessGroupSymCCL(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                       c10::intrusive_ptr<GroupOptions> options)
    : Backend(rank, size), options_(std::move(options)), process_(getpid()) {
  init();
  TORCH_CHECK_VALUE(size > 0 && rank >= 0 && rank < size, "symccl: rank ", rank, " is not in a group of ", size,
                    " ranks");
  chooseDevice(*options_, rank);
  StoreAdapter adapter(store);
  // Groups of several backends share the group's name.
  const std::string name = (options_->backend == kBackendName ? "" : options_->backend + "_") + options_->group_name;
  const CommunicatorOptions made{name, options_->timeout, options_->device, options_->algorithm,
                                 options_->highPriority};
  auto communicator = Communicator::create(adapter, rank, size, made);
  rethrowRaised();
  if (!communicator) throwError(communicator.error(), options_->timeout);
  communicator_ = std::move(*communicator);
  std::lock_guard lock(liveGroups().mutex);
  liveGroups().groups.insert(this);
}

ProcessGroupSymCCL::~ProcessGroupSymCCL() {
  {
    std::lock_guard lock(liveGroups().mutex);
    liveGroups().groups.erase(this);
  }
  shutdown();
}

ProcessGroupSymCCL::Remains ProcessGroupSymCCL::takeRemains() {
  std::lock_guard lock(mutex_);
  Remains remains{std::move(communicator_), std::move(tensorPool_)};
  if (process_ == getpid()) return remains;
  // A forked child has none of the communicator's threads, and its peers are the parent's: it must not destroy it.
  new Remains(std::move(remains));
  return {};
}

void ProcessGroupSymCCL::shutdown() { releaseWithoutGil(takeRemains().communicator); }

void ProcessGroupSymCCL::shutdownAll() {
  std::vector<Remains> all;
  {
    std::lock_guard lock(liveGroups().mutex);
    for (auto* group : liveGroups().groups) all.push_back(group->takeRemains());
  }
}

void ProcessGroupSymCCL::abort() {
  std::shared_ptr<Communicator> communicator;
  {
    std::lock_guard lock(mutex_);
    communicator = communicator_;
  }
  if (communicator) communicator->abort();
}

std::shared_ptr<Communicator> ProcessGroupSymCCL::communicator() const {
  std::lock_guard lock(mutex_);
  TORCH_CHECK_WITH(DistBackendError, communicator_ != nullptr, "symccl: the process group '", options_->group_name,
                   "' was destroyed");
  return communicator_;
}

void ProcessGroupSymCCL::setTimeout(std::chrono::milliseconds timeout) {
  TORCH_CHECK_VALUE(timeout.count() > 0, "symccl: a timeout must be positive, got ", timeout.count(), " ms");
  communicator()->setTimeout(timeout);
  options_->timeout = timeout;
}

c10d::ErrorType ProcessGroupSymCCL::getError() {
  const Status status = communicator()->status();
  if (status) return c10d::ErrorType::SUCCESS;
  switch (status.error().code()) {
    case Code::timeout:
      return c10d::ErrorType::TIMEOUT;
    case Code::dead:
    case Code::destroyed:
      return c10d::ErrorType::REMOTE_ERROR;
    default:
      return c10d::ErrorType::COMM_ERROR;
  }
}

// A copy: c10d writes the new group's name and timeout into it before it calls split().
c10::intrusive_ptr<c10d::Backend::Options> ProcessGroupSymCCL::getBackendOptions() { return options_->copy(); }

c10::intrusive_ptr<c10d::Backend> ProcessGroupSymCCL::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                            const std::vector<int>& ranks,
                                                            const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const auto mine = std::find(ranks.begin(), ranks.end(), rank_);
  if (mine == ranks.end()) return nullptr;
  const auto made = optionsLike(options.get());
  if (made->group_name.empty() || made->group_name == options_->group_name) {
    made->group_name = options_->group_name + ":split";
    for (const int rank : ranks) made->group_name += ":" + std::to_string(rank);
  }
  made->global_ranks_in_group.clear();
  for (const int rank : ranks) {
    TORCH_CHECK_VALUE(rank >= 0 && rank < size_, "symccl: split: rank ", rank, " is not in the group of ", size_,
                      " ranks");
    made->global_ranks_in_group.push_back(options_->global_ranks_in_group.at(rank));
  }
  return makeAlike(store, static_cast<int>(mine - ranks.begin()), static_cast<int>(ranks.size()), made);
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupSymCCL::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                                            const c10::intrusive_ptr<c10d::Backend::Options>& options,
                                                            const int& rank, const int& size) {
  const auto made = optionsLike(options.get());
  if (options == nullptr || made->group_name.empty()) made->group_name = options_->group_name + ":merge";
  made->global_ranks_in_group.clear();
  return makeAlike(store, rank, size, made);
}

// A copy of what c10d hands over, which may be of some other backend: then its basic fields on top of this group's.
c10::intrusive_ptr<GroupOptions> ProcessGroupSymCCL::optionsLike(const c10d::Backend::Options* given) const {
  if (const auto* ours = dynamic_cast<const GroupOptions*>(given)) return ours->copy();
  auto made = options_->copy();
  if (given != nullptr) {
    made->timeout = given->timeout;
    made->group_name = given->group_name;
    made->group_desc = given->group_desc;
  }
  return made;
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupSymCCL::makeAlike(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                                int size,
                                                                c10::intrusive_ptr<GroupOptions> options) const {
  return c10::make_intrusive<ProcessGroupSymCCL>(store, rank, size, std::move(options));
}

std::unordered_map<std::string, std::uint64_t> ProcessGroupSymCCL::getMemoryStats() {
  const CommunicatorReport report = communicator()->report();
  const HeapReport heap = valueOf(heapReport(options_->device));
  return {{"heap_bytes", heap.bytes},
          {"heap_used", heap.used},
          {"heap_peak", heap.peak},
          {"registered_segments", report.registeredSegments},
          {"registered_bytes", report.registeredBytes}};
}

void ProcessGroupSymCCL::registerOnCompletionHook(CompletionHook::Function&& hook) {
  TORCH_CHECK(hook_ == nullptr, "symccl: the group has a completion hook already");
  onCompletionHook_ = hook;  // what hasHooks() looks at
  hook_ = std::make_shared<CompletionHook>(std::move(hook));
}

void ProcessGroupSymCCL::waitForPendingWorks() {
  if (hook_) hook_->wait();
}

c10::intrusive_ptr<OperationWork> ProcessGroupSymCCL::makeWork(const Call& call, std::uint64_t sequence) const {
  auto work = c10::make_intrusive<OperationWork>(rank_, call, sequence);
  if (hook_) work->reportTo(hook_);
  return work;
}

CallOptions ProcessGroupSymCCL::callOptions(std::chrono::milliseconds timeout) {
  return timeout.count() < 0 ? CallOptions{} : CallOptions{timeout};
}

std::chrono::milliseconds ProcessGroupSymCCL::timeoutOf(std::chrono::milliseconds timeout) const {
  return timeout.count() < 0 ? options_->timeout : timeout;
}

void ProcessGroupSymCCL::runOrThrow(const Operation& operation, std::chrono::milliseconds timeout) {
  const auto communicator = this->communicator();
  const SignalScope scope(communicator);
  const Status status = communicator->run(operation, callOptions(timeout));
  scope.rethrow();
  check(status, timeoutOf(timeout));
}

ProcessGroupSymCCL::Works ProcessGroupSymCCL::issue(Call& call) {
  if (batching()) return addToBatch(call);
  const std::uint64_t sequence = sequence_ + 1;
  const auto go = [&] { return call.async ? start(call, sequence) : run(call, sequence); };
  if (!at::hasCallbacks()) return go();
  const at::ScalarType type = !call.inputs.empty()    ? call.inputs.front().scalar_type()
                              : !call.outputs.empty() ? call.outputs.front().scalar_type()
                                                      : at::kByte;
  RECORD_PARAM_COMMS_DATA_WITH_ASYNC_OP(
      std::make_tuple(static_cast<std::int64_t>(sequence), false), std::make_tuple(pg_uid_, pg_desc_), call.inputs,
      call.outputs, rank_, call.name(), elementsOf(call.inputs), elementsOf(call.outputs), type,
      std::vector<std::int64_t>{}, std::vector<std::int64_t>{}, -1, -1, size_, call.async);
  return go();
}

ProcessGroupSymCCL::Works ProcessGroupSymCCL::run(Call& call, std::uint64_t sequence) {
  const auto communicator = this->communicator();
  auto work = makeWork(call, sequence);
  const SignalScope scope(communicator);
  for (const Step& step : call.steps) {
    const Status status = communicator->run(step.operation, callOptions(call.timeout));
    if (status) continue;
    scope.rethrow();
    if (status.error().code() != Code::invalid) ++sequence_;
    throwError(status.error(), timeoutOf(call.timeout));
  }
  ++sequence_;
  call.buffers.copyBack();
  work->setOutputs(std::move(call.outputs));
  work->endInCall();
  return work;
}

ProcessGroupSymCCL::Works ProcessGroupSymCCL::start(Call& call, std::uint64_t sequence) {
  const auto communicator = this->communicator();
  auto work = makeWork(call, sequence);
  std::vector<Request> requests;
  for (const Step& step : call.steps) {
    requests.push_back(communicator->start(step.operation, callOptions(call.timeout)));
    throwIfRefused(requests.back());
  }
  ++sequence_;
  work->setOutputs(std::move(call.outputs));
  work->start(communicator, std::move(requests), std::move(call.buffers), timeoutOf(call.timeout));
  started(*work);
  return work;
}

}  // namespace symccl::pytorch
