#include "comm/collective_lane.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/checks.hpp"
#include "base/log.hpp"
#include "collectives/algorithms.hpp"
#include "collectives/buffers.hpp"

namespace symccl {

CollectiveLane::CollectiveLane(Group& group, const SegmentSet& registered, const PlanRules& rules)
    : group_(group),
      registered_(registered),
      rules_(rules),
      moving_{
          group.size() > group.identity().cpus ? StoreTuner::forSharedCpus() : StoreTuner(rules.costs.streamToPeers),
          StoreTuner(StoreTuner::kLarge), rules.threads, !rules.highPriority} {
  calls_.resize(static_cast<std::size_t>(group.size()));
}

CollectiveLane::~CollectiveLane() = default;

// --- issuing ------------------------------------------------------------------------------------------------------

// Where the buffers lie, and pins on their segments. Pin first, then ask: whoever unregisters clears the bit first and
// then looks for pins.
bool CollectiveLane::locate(const Operation& operation, Call& call, Pins& pins) const {
  const Heap& heap = group_.heap();
  call.sendLocated = call.recvLocated = true;
  eachBuffer(operation, group_.rank(), group_.size(), [&](Role role, const Block& block) {
    if (block.bytes == 0) return;
    bool& located = role == Role::input ? call.sendLocated : call.recvLocated;
    if (!located) return;
    const auto* data = static_cast<const std::byte*>(block.data);
    const auto offset = static_cast<std::size_t>(data - heap.base());
    if (data < heap.base() || offset >= heap.bytes() || block.bytes > heap.bytes() - offset) {
      located = false;
      return;
    }
    pins.pin(offset, block.bytes);
    if (!registered_.contains(offset, block.bytes)) {
      pins.undo();
      located = false;
      return;
    }
    (role == Role::input ? call.send : call.recv) = offset;
  });
  return call.sendLocated && call.recvLocated;
}

CollectiveLane::Issue CollectiveLane::issue(const Operation& operation, Deadline deadline) {
  Issue issue{operation, {}, deadline, Pins(group_.heap())};
  Call& call = issue.call;
  call.kind = operation.kind;
  call.type = operation.type;
  call.op = operation.op;
  call.root = hasRoot(operation.kind) ? operation.root : 0;
  call.factor = operation.factor;
  std::uint64_t offered;
  if (isV(operation.kind)) {
    offered = operation.sendBlocks.empty() && operation.kind != Kind::scatterV ? operation.count : 0;
    for (const Block& block : operation.sendBlocks) offered += block.bytes;
  } else {
    call.count = operation.count;
    offered = offeredBytes(operation.kind, operation.count * sizeOf(operation.type), group_.size());
  }
  call.form = formFor(offered, operation.op, operation.kind);
  if (call.form == Form::buffers || isV(operation.kind)) {
    locate(operation, call, issue.pins);
    if (operation.kind == Kind::allToAll) {
      const std::size_t all = offered;
      const auto* send = static_cast<const std::byte*>(operation.send);
      const auto* recv = static_cast<const std::byte*>(operation.recv);
      call.inPlace = send < recv + all && recv < send + all;
    }
  }
  return issue;
}

Status CollectiveLane::run(const Operation& operation, Deadline deadline) {
  unsigned idle = 0;
  if (!state_.compare_exchange_strong(idle, kDriven, std::memory_order_acquire))
    return start(operation, deadline)->wait(Deadline::never());
  Issue now = issue(operation, deadline);
  Status status = execute(now);
  handBack();
  return status;
}

std::shared_ptr<detail::RequestState> CollectiveLane::start(const Operation& operation, Deadline deadline) {
  auto request = std::make_shared<detail::RequestState>(self_);
  auto queued = std::make_unique<Queued>(Queued{issue(operation, deadline), {}, {}, request});
  // The caller's arrays of blocks may go when this returns.
  queued->sendBlocks.assign(operation.sendBlocks.begin(), operation.sendBlocks.end());
  queued->recvBlocks.assign(operation.recvBlocks.begin(), operation.recvBlocks.end());
  queued->issue.operation.sendBlocks = queued->sendBlocks;
  queued->issue.operation.recvBlocks = queued->recvBlocks;
  {
    std::lock_guard lock(mutex_);
    if (!stopping_) {
      queue_.push_back(std::move(queued));
      state_.fetch_or(kWanted, std::memory_order_acq_rel);
      if (!worker_.joinable()) worker_ = std::thread([this, alive = self_.lock()] { work(); });
    }
  }
  if (queued) {
    request->finish(group_.status());
  } else {
    changed_.notify_all();
  }
  return request;
}

// --- driving ------------------------------------------------------------------------------------------------------

void CollectiveLane::handBack() {
  unsigned own = kDriven;
  if (state_.compare_exchange_strong(own, 0, std::memory_order_release)) return;
  {
    std::lock_guard lock(mutex_);
    state_.store(queue_.empty() && !stopping_ ? 0 : kWanted, std::memory_order_release);
  }
  changed_.notify_all();
}

// Requests are finished after the lane has been handed back: a callback may use the communicator, or destroy it.
void CollectiveLane::runFront(std::unique_lock<std::mutex>& lock) {
  std::unique_ptr<Queued> next = std::move(queue_.front());
  queue_.pop_front();
  state_.fetch_or(kDriven, std::memory_order_acq_rel);
  lock.unlock();
  Status status = execute(next->issue);
  handBack();
  const std::shared_ptr<detail::RequestState> request = next->request;
  next.reset();
  request->finish(std::move(status));
}

void CollectiveLane::drive(const detail::RequestState& request, Deadline deadline) {
  if (!deadline.isNever()) return;  // an operation in hand runs to its own deadline: leave it to the worker
  std::unique_lock lock(mutex_);
  while (!request.done()) {
    if (driven() || queue_.empty()) return;  // someone else does the work; the caller waits for the end
    runFront(lock);
    lock.lock();
  }
}

void CollectiveLane::work() {
  // Or a worker that wakes on its caller's CPU would run in the caller's place at once, for milliseconds, before the
  // call that started an operation has returned.
  const sched_param usual{};
  ::sched_setscheduler(0, SCHED_BATCH, &usual);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || (!driven() && !queue_.empty()); });
    if (stopping_) return;
    runFront(lock);
    lock.lock();
  }
}

void CollectiveLane::stop() {
  std::deque<std::unique_ptr<Queued>> open;
  std::thread worker;
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    state_.fetch_or(kWanted, std::memory_order_acq_rel);
    open.swap(queue_);
    worker.swap(worker_);
    changed_.notify_all();
    changed_.wait(lock, [&] { return !driven(); });
  }
  for (const auto& queued : open) queued->request->finish(group_.status());
  if (!worker.joinable()) return;
  if (worker.get_id() == std::this_thread::get_id()) {
    worker
        .detach();  // a callback destroyed the communicator; the worker's own reference keeps the lane until it returns
  } else {
    worker.join();
  }
}

// --- executing ----------------------------------------------------------------------------------------------------

Status CollectiveLane::execute(Issue& issue) {
  if (group_.failed()) return group_.status();
  if (group_.size() == 1) return runAlone(issue.operation);
  const Doing doing{nameOf(issue.operation.kind), sequence_.load(std::memory_order_relaxed) + 1};
  sequence_.store(doing.number, std::memory_order_relaxed);
  std::optional<UrgentOperation> urgent;
  if (rules_.highPriority) urgent.emplace();
  const std::uint64_t before = group_.steps();
  Round round(group_, issue.operation, calls_, doing, issue.deadline, scratch_, moving_);
  Status status = attempt(issue, doing, round);
  if (!status) {
    status = group_.fail(status.error(), status.error().rank(), doing.number);
    // Every zero-copy algorithm has one step.
    if (!group_.leave(touched(doing.number), before + 1)) issue.pins.keep();
  }
  group_.finishLooking();
  return status;
}

Status CollectiveLane::attempt(Issue& issue, const Doing& doing, Round& round) {
  const std::array<std::uint64_t, 7> words = announce(issue, doing, round.layout);
  if (Status status = group_.arrive(doing, issue.deadline); !status) return status;
  if (const Algorithm* algorithm = allAlike(issue.call, words, doing.number)) {
    if (Status status = group_.interrupted(doing); !status) return status;
    if (Status status = finishOneShot(round, scratch_.rows); !status) return status;
    record(issue.operation, doing, {algorithm}, round);
    return {};
  }
  Result<Plan> plan = agree(doing, round.layout);
  if (!plan) return plan.error();
  if (Status status = group_.interrupted(doing); !status) return status;
  if (plan->algorithm->path == Path::staged) {
    if (Status status = backStaging(doing); !status) return status;
  }
  if (Status status = plan->algorithm->run(round); !status) return status;
  record(issue.operation, doing, *plan, round);
  return {};
}

// Most small operations: where all ranks have announced the same words there is nothing to decode and to compare. Then
// the algorithm, with the rows of all ranks in the scratch; else null.
const Algorithm* CollectiveLane::allAlike(const Call& own, const std::array<std::uint64_t, 7>& words, std::uint64_t n) {
  if (own.form == Form::buffers || isV(own.kind) || own.kind == Kind::barrier || own.op == ReduceOp::premulSum)
    return nullptr;
  const bool eager = own.form == Form::eager;
  scratch_.rows.clear();
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == group_.rank()) {
      scratch_.rows.push_back(eager ? group_.ownArea().eagerSlot(n) : own.payload.data());
      continue;
    }
    const auto& theirs = group_.area(rank).announcement(n);
    // The signature and, where it is not part of that, the count.
    if (theirs.words[0].get() != words[0] || (eager && theirs.words[1].get() != words[1])) return nullptr;
    scratch_.rows.push_back(eager ? group_.area(rank).eagerSlot(n)
                                  : static_cast<const std::byte*>(theirs.words[1].address()));
  }
  const Situation situation{.kind = own.kind,
                            .size = group_.size(),
                            .cpus = rules_.cpus,
                            .bytes = own.count * sizeOf(own.type),
                            .form = own.form};
  const Algorithm& algorithm = choose(situation, rules_);
  return algorithm.path == Path::inlined || algorithm.path == Path::eager ? &algorithm : nullptr;
}

void CollectiveLane::record(const Operation& operation, const Doing& doing, const Plan& plan, const Round& round) {
  std::uint64_t bytes = 0;
  eachBuffer(operation, group_.rank(), group_.size(), [&](Role role, const Block& block) {
    if (role == Role::input) bytes += block.bytes;
  });
  counters_.record(operation.kind, bytes, plan, round.traffic());
  if (logLevel() >= LogLevel::trace) trace(doing, operation, plan);
}

std::array<std::uint64_t, 7> CollectiveLane::announce(Issue& issue, const Doing& doing, const Layout& layout) {
  const Operation& operation = issue.operation;
  Call& call = issue.call;
  const bool fromRoot = operation.kind == Kind::broadcast || operation.kind == Kind::scatter;
  const bool offers = operation.send != nullptr && (!fromRoot || group_.rank() == operation.root);
  if (isV(operation.kind)) layout.describe(doing.number, group_.heap(), call);
  if (call.form == Form::inlined && offers) {
    std::memcpy(call.payload.data(), operation.send, offeredBytes(operation.kind, layout.countBytes(), group_.size()));
  } else if (call.form == Form::eager) {
    if (isV(operation.kind) || offers) fillEagerSlot(operation, layout, group_.ownArea().eagerSlot(doing.number));
  }
  const std::array<std::uint64_t, 7> words = call.encode();
  group_.announce(doing.number, words);
  return words;
}

void CollectiveLane::fillEagerSlot(const Operation& operation, const Layout& layout, std::byte* slot) const {
  if (!isV(operation.kind)) {
    const std::size_t bytes = offeredBytes(operation.kind, layout.countBytes(), group_.size());
    if (bytes != 0) std::memcpy(slot, operation.send, bytes);
    return;
  }
  if (operation.sendBlocks.empty()) {
    if (operation.send != nullptr && operation.count != 0) std::memcpy(slot, operation.send, operation.count);
    return;
  }
  for (const Block& block : operation.sendBlocks) {
    if (block.bytes == 0) continue;
    std::memcpy(slot, block.data, block.bytes);
    slot += block.bytes;
  }
}

Status CollectiveLane::readCalls(std::uint64_t n) {
  for (int rank = 0; rank < group_.size(); ++rank) {
    Result<Announcement> announcement = group_.announced(rank, n);
    if (!announcement) return announcement.error();
    Result<Call> call = Call::decode(*announcement, rank, group_.size());
    if (!call) return call.error();
    calls_[static_cast<std::size_t>(rank)] = *call;
  }
  return {};
}

Result<Plan> CollectiveLane::agree(const Doing& doing, const Layout& layout) {
  const auto named = [&](const Error& error) {
    return Error(error.code(), group_.describe(doing) + ": " + error.message(), error.rank());
  };
  if (Status status = readCalls(doing.number); !status) return named(status.error());
  if (Status status = sameCall(calls_); !status) return named(status.error());
  if (Status status = layout.verify(); !status) return named(status.error());
  return plan(calls_, rules_);
}

// Whether somebody may be at this rank's buffers: all had announced operation n and it is zero-copy.
bool CollectiveLane::touched(std::uint64_t n) {
  if (!group_.allAnnounced(n) || !readCalls(n) || !sameCall(calls_)) return false;
  return plan(calls_, rules_).algorithm->path == Path::zeroCopy;
}

Status CollectiveLane::backStaging(const Doing& doing) {
  if (stagingBacked_) return {};
  const std::size_t offset = group_.place(group_.rank()).areaOffset + group_.ownArea().layout().staging;
  if (Status status = group_.heap().back(offset, 3 * kStagingSlot); !status) {
    return Error(status.error().code(),
                 text(group_.describe(doing), ": no memory for staging: ", status.error().message()), group_.rank());
  }
  stagingBacked_ = true;
  return {};
}

// One rank: the result is the input, as if read from an eager slot.
Status CollectiveLane::runAlone(const Operation& operation) {
  const Doing doing{nameOf(operation.kind), sequence_.load(std::memory_order_relaxed) + 1};
  sequence_.store(doing.number, std::memory_order_relaxed);
  calls_[0] = Call{};
  calls_[0].factor = operation.factor;
  Round round(group_, operation, calls_, doing, Deadline::never(), scratch_, moving_);
  const Layout& layout = round.layout;
  const std::size_t bytes = layout.bytesFrom(0);
  Status status;
  if (reduces(operation.kind)) {
    const void* source = layout.outgoing(0);
    void* target = layout.incoming(0);
    status = round.reduce({&source, 1}, {&target, 1}, bytes / sizeOf(operation.type), Stores::ordinary);
  } else if (bytes != 0) {
    status = round.copy(layout.incoming(0), layout.outgoing(0), bytes, Stores::ordinary);
  }
  static constexpr Algorithm alone{"local", Path::none, nullptr};
  counters_.record(operation.kind, bytes, {&alone}, round.traffic());
  return status;
}

void CollectiveLane::trace(const Doing& doing, const Operation& operation, const Plan& plan) const {
  log(LogLevel::trace, "COLL", group_.rank(), "comm ", group_.name(), " ", doing.what, " ", doing.number, " type ",
      nameOf(operation.type), " count ", operation.count, " path ", nameOf(plan.algorithm->path), " algorithm ",
      plan.algorithm->name);
}

}  // namespace symccl
