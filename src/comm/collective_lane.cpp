#include "comm/collective_lane.hpp"

#include <algorithm>
#include <cstring>

#include "base/checks.hpp"
#include "base/log.hpp"
#include "collectives/buffers.hpp"

namespace symccl {

CollectiveLane::CollectiveLane(Group& group, const SegmentSet& registered, const PlanRules& rules)
    : group_(group), registered_(registered), rules_(rules) {
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
  std::unique_lock lock(mutex_);
  if (driving_ || !queue_.empty()) {
    lock.unlock();
    return start(operation, deadline)->wait(Deadline::never());
  }
  takeOver(lock);
  Issue now = issue(operation, deadline);
  Status status = execute(now);
  lock.lock();
  handBack(lock);
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

void CollectiveLane::takeOver(std::unique_lock<std::mutex>& lock) {
  driving_ = true;
  lock.unlock();
}

void CollectiveLane::handBack(std::unique_lock<std::mutex>& lock) {
  driving_ = false;
  const bool wanted = !queue_.empty() || stopping_;
  lock.unlock();
  if (wanted) changed_.notify_all();
}

// Requests are finished after the lane has been handed back: a callback may use the communicator, or destroy it.
void CollectiveLane::runFront(std::unique_lock<std::mutex>& lock) {
  std::unique_ptr<Queued> next = std::move(queue_.front());
  queue_.pop_front();
  takeOver(lock);
  Status status = execute(next->issue);
  lock.lock();
  handBack(lock);
  const std::shared_ptr<detail::RequestState> request = next->request;
  next.reset();
  request->finish(std::move(status));
}

void CollectiveLane::drive(const detail::RequestState& request, Deadline deadline) {
  std::unique_lock lock(mutex_);
  while (!request.done() && !deadline.passed()) {
    if (driving_ || queue_.empty()) return;  // someone else does the work; the caller waits for the end
    runFront(lock);
    lock.lock();
  }
}

void CollectiveLane::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || (!driving_ && !queue_.empty()); });
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
    open.swap(queue_);
    worker.swap(worker_);
    changed_.notify_all();
    changed_.wait(lock, [&] { return !driving_; });
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
  const std::uint64_t before = group_.steps();
  Round round(group_, issue.operation, calls_, doing, issue.deadline, scratch_);
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
  announce(issue, doing, round.layout);
  if (Status status = group_.arrive(doing, issue.deadline); !status) return status;
  Result<Plan> plan = agree(doing, round.layout);
  if (!plan) return plan.error();
  if (Status status = group_.interrupted(doing); !status) return status;
  if (plan->algorithm->path == Path::staged) {
    if (Status status = backStaging(doing); !status) return status;
  }
  if (Status status = plan->algorithm->run(round); !status) return status;
  std::uint64_t bytes = 0;
  eachBuffer(issue.operation, group_.rank(), group_.size(), [&](Role role, const Block& block) {
    if (role == Role::input) bytes += block.bytes;
  });
  counters_.record(issue.operation.kind, bytes, *plan, round.traffic());
  if (logLevel() >= LogLevel::trace) trace(doing, issue.operation, *plan);
  return {};
}

void CollectiveLane::announce(Issue& issue, const Doing& doing, const Layout& layout) {
  const Operation& operation = issue.operation;
  Call& call = issue.call;
  const bool fromRoot = operation.kind == Kind::broadcast || operation.kind == Kind::scatter;
  const bool offers = operation.send != nullptr && (!fromRoot || group_.rank() == operation.root);
  if (isV(operation.kind)) {
    layout.fillTable(doing.number, group_.heap());
    call.count = 0;
    for (int peer = 0; peer < group_.size(); ++peer) {
      if (peer != group_.rank()) call.count = std::max<std::uint64_t>(call.count, layout.bytesTo(peer));
    }
  }
  if (call.form == Form::inlined && offers) {
    std::memcpy(call.payload.data(), operation.send, offeredBytes(operation.kind, layout.countBytes(), group_.size()));
  } else if (call.form == Form::eager) {
    if (isV(operation.kind) || offers) fillEagerSlot(operation, layout, group_.ownArea().eagerSlot(doing.number));
  }
  group_.announce(doing.number, call.encode());
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
  Round round(group_, operation, calls_, doing, Deadline::never(), scratch_);
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
