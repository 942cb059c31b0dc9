#include "symccl/communicator.hpp"

#include <algorithm>
#include <atomic>
#include <set>
#include <tuple>

#include "base/checks.hpp"
#include "base/environment.hpp"
#include "base/fork.hpp"
#include "base/log.hpp"
#include "base/wait.hpp"
#include "collectives/probe.hpp"
#include "comm/arguments.hpp"
#include "comm/core.hpp"
#include "comm/joining.hpp"
#include "comm/membership.hpp"
#include "protocol/area_allocator.hpp"

namespace symccl {

namespace {

/// The names in use in this process, each with its rank; those of a parent process do not count. Leaked: communicators
/// may outlive static destructors.
class LiveNames {
 public:
  static bool take(const std::string& name, int rank) {
    std::lock_guard lock(state().mutex);
    return state().names.insert({forkGeneration(), name, rank}).second;
  }
  static void give(const std::string& name, int rank) {
    std::lock_guard lock(state().mutex);
    state().names.erase({forkGeneration(), name, rank});
  }

 private:
  struct State {
    ForkSafeMutex mutex;
    std::set<std::tuple<std::uint64_t, std::string, int>> names;
  };
  static State& state() {
    static State& all = *new State;
    return all;
  }
};

class CommunicatorImpl final : public Communicator {
 public:
  CommunicatorImpl(std::shared_ptr<Core> core, std::chrono::milliseconds timeout)
      : core_(std::move(core)), timeout_(timeout), forkGeneration_(forkGeneration()) {
    const Group& group = core_->group();
    log(LogLevel::info, "COMM", rank(), "created communicator ", name(), " size ", size(), " heap ",
        group.heap().ordinal(), " symmetric ", symmetric() ? "yes" : "no", " barrier ",
        group.identity().fences ? "fences" : "membarrier", " cpus ", group.identity().cpus, " yields ",
        group.identity().yields ? "yes" : "no", " streams from ", bytesText(core_->rules().costs.streamToPeers),
        " threads ", core_->rules().threads);
  }

  ~CommunicatorImpl() override {
    if (forkGeneration() != forkGeneration_) {
      new std::shared_ptr<Core>(std::move(core_));  // the parent's: its threads and locks are not ours to end
      return;
    }
    core_->shutdown();
    LiveNames::give(name(), rank());
    log(LogLevel::info, "COMM", rank(), "destroyed communicator ", name());
  }

  int rank() const override { return core_->group().rank(); }
  int size() const override { return core_->group().size(); }
  const std::string& name() const override { return core_->group().name(); }

  Result<std::shared_ptr<Communicator>> split(int color, int key, const CommunicatorOptions& options) override;

  Status run(const Operation& operation, const CallOptions& options) override {
    if (Status status = admit(operation); !status) return status;
    return core_->collectives().run(operation, deadline(options));
  }

  Request start(const Operation& operation, const CallOptions& options) override {
    if (Status status = admit(operation); !status) return refused(status);
    return Request(core_->collectives().start(operation, deadline(options)));
  }

  std::vector<Request> start(std::span<const Message> messages, const CallOptions& options) override {
    std::vector<Request> requests;
    if (Status status = usable(); !status) {
      for (std::size_t i = 0; i < messages.size(); ++i) requests.push_back(refused(status));
      return requests;
    }
    for (auto& state : core_->messages().start(messages, deadline(options))) requests.emplace_back(std::move(state));
    return requests;
  }

  Status registerPool(const std::shared_ptr<Pool>& pool) override {
    if (Status status = usable(); !status) return status;
    return core_->registerPool(pool);
  }
  Status deregisterPool(const std::shared_ptr<Pool>& pool) override {
    if (Status status = own(); !status) return status;
    return core_->deregisterPool(pool);
  }
  bool isRegistered(const void* address, std::size_t bytes) const override {
    const Heap& heap = core_->group().heap();
    const auto* data = static_cast<const std::byte*>(address);
    if (data < heap.base() || data >= heap.base() + heap.bytes()) return false;
    const auto offset = static_cast<std::size_t>(data - heap.base());
    return bytes <= heap.bytes() - offset && core_->registered().contains(offset, bytes);
  }

  void abort(const std::string& reason) override {
    if (!own()) return;
    Group& group = core_->group();
    const Error error(Code::aborted,
                      text("communicator '", name(), "' (rank ", rank(), " of ", size(), ") was aborted: ", reason),
                      rank());
    (void)group.fail(error, rank(), core_->collectives().sequence());
  }

  Status status() const override { return usable(); }
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_.store(timeout, std::memory_order_relaxed); }
  std::chrono::milliseconds timeout() const override { return timeout_.load(std::memory_order_relaxed); }
  CommunicatorReport report() const override;

  std::vector<int> pids() const override {
    std::vector<int> all;
    for (int member = 0; member < size(); ++member)
      all.push_back(static_cast<int>(core_->group().place(member).peer->entry().pid));
    return all;
  }

 private:
  struct SplitEntry {
    std::int32_t color, key;
    std::uint64_t area;
    std::uint64_t nonce;
    std::uint64_t algorithm;  // a hash of the option
  };

  // Not a parent's communicator in a forked child.
  Status own() const {
    if (forkGeneration() == forkGeneration_) return {};
    return Error(Code::forked, "this communicator belongs to the parent process; a forked child must create its own");
  }
  Status usable() const {
    if (Status status = own(); !status) return status;
    return core_->group().status();
  }
  Status admit(const Operation& operation) const {
    if (forkGeneration() != forkGeneration_ || core_->group().failed()) return usable();
    return checkArguments(operation, rank(), size());
  }
  Deadline deadline(const CallOptions& options) const { return Deadline::in(options.timeout.value_or(timeout())); }
  static Request refused(const Status& status) {
    auto state = std::make_shared<detail::RequestState>();
    state->finish(status);
    return Request(std::move(state));
  }
  bool symmetric() const {
    for (int member = 0; member < size(); ++member) {
      if (!core_->group().place(member).symmetric) return false;
    }
    return true;
  }

  std::shared_ptr<Core> core_;
  std::atomic<std::chrono::milliseconds> timeout_;
  const std::uint64_t forkGeneration_;
};

CommunicatorReport CommunicatorImpl::report() const {
  CommunicatorReport report;
  report.name = name();
  report.rank = rank();
  report.size = size();
  report.sequence = core_->collectives().sequence();
  core_->collectives().counters().report(report);
  const MessageCounters messages = core_->messages().counters();
  OperationCounters sends, recvs;
  sends.calls = messages.sends;
  sends.bytes = messages.sentBytes;
  sends.inlined = messages.inlined;
  sends.eager = messages.eager;
  sends.zeroCopy = messages.located;
  sends.staged = messages.onDemand;
  recvs.calls = messages.recvs;
  recvs.bytes = messages.receivedBytes;
  report.operations.emplace_back("send", sends);
  report.operations.emplace_back("recv", recvs);
  report.registeredSegments = core_->registeredSegments();
  report.registeredBytes = core_->registeredBytes();
  report.symmetric = symmetric();
  return report;
}

// One small all-gather on the parent; neither store nor links are needed again.
Result<std::shared_ptr<Communicator>> CommunicatorImpl::split(int color, int key, const CommunicatorOptions& options) {
  Group& parent = core_->group();
  if (options.timeout.count() <= 0)
    return invalid("split: the timeout must be positive, not ", options.timeout.count(), " ms");
  if (options.device >= 0 && options.device != parent.heap().ordinal()) {
    return invalid("split: device ", options.device, " asked for, but the parent's heap is of device ",
                   parent.heap().ordinal());
  }
  Result<PlanRules> rules = options.algorithm.empty() ? core_->rules() : askedRules(options);
  if (!rules) return rules.error().in("split");
  rules->cpus = core_->rules().cpus;
  rules->costs = core_->rules().costs;
  rules->threads = core_->rules().threads;
  rules->highPriority = options.highPriority;
  constexpr std::uint64_t kNoArea = ~std::uint64_t{0};
  Result<std::size_t> area = AreaAllocator::of(parent.heap()).take(size());
  const SplitEntry mine{color, key, area ? *area : kNoArea, randomUuid().words[0],
                        std::hash<std::string>()(options.algorithm)};
  std::vector<SplitEntry> all(static_cast<std::size_t>(size()));
  const Status status =
      run(Operation::allGather(&mine, all.data(), sizeof(SplitEntry), DataType::byte), {options.timeout});
  const auto giveBack = [&] {
    if (area) AreaAllocator::of(parent.heap()).giveBack(*area, size());
  };
  if (!status) {
    giveBack();
    return status.error().in("split");
  }
  for (int rank = 0; rank < size(); ++rank) {
    if (all[static_cast<std::size_t>(rank)].area != kNoArea) continue;
    giveBack();
    return area ? Error(Code::memory, text("split: rank ", rank, " has no memory left for a control area"), rank)
                : area.error().in("split");
  }
  if (color < 0) {
    giveBack();
    return std::shared_ptr<Communicator>();
  }
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (all[static_cast<std::size_t>(rank)].color == color) ranks.push_back(rank);
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return all[static_cast<std::size_t>(a)].key < all[static_cast<std::size_t>(b)].key;
  });
  for (int rank : ranks) {
    if (all[static_cast<std::size_t>(rank)].algorithm == mine.algorithm) continue;
    giveBack();
    return invalid("split: rank ", rank, " has another option algorithm than rank ", this->rank(), ", which has '",
                   options.algorithm, "'; it must be equal on all ranks of a color");
  }
  std::vector<std::size_t> areas;
  for (int rank : ranks) areas.push_back(all[static_cast<std::size_t>(rank)].area);
  const auto childRank = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin());
  // The nonce of the child's first rank makes the instance unique among those of the parent.
  const Uuid epoch{parent.epoch().words[0] ^ all[static_cast<std::size_t>(ranks.front())].nonce,
                   parent.epoch().words[1] + static_cast<std::uint64_t>(color) + 1};
  const auto size = static_cast<int>(ranks.size());
  const ControlArea own(parent.heap().base() + *area, size);
  own.front().header.write(epoch, childRank, size, AreaLayout(size).bytes);
  if (!LiveNames::take(options.name, childRank)) {
    const Error error =
        invalid("split: a communicator '", options.name, "' with rank ", childRank, " is alive in this process");
    withdraw(own, childRank, error);
    return error;
  }
  return std::shared_ptr<Communicator>(new CommunicatorImpl(
      Core::make(subgroup(parent, options.name, epoch, childRank, ranks, areas), *rules), options.timeout));
}

}  // namespace

namespace {

// CPUs that no other rank of the host needs. Bandwidth is the limit, so a few threads are enough.
int threadsOf(const Group& group) {
  if (environment().threads > 0) return environment().threads;
  const Result<Launch> launch = launchFromEnvironment();
  const int ranks = std::max(group.size(), launch ? launch->localSize : 0);
  return std::clamp(group.identity().cpus / ranks, 1, 4);
}

}  // namespace

void setWaitHook(void (*hook)()) { waitHook.store(hook, std::memory_order_relaxed); }

Result<std::shared_ptr<Communicator>> Communicator::create(Store& store, int rank, int size,
                                                           const CommunicatorOptions& options) {
  const std::string context = text("creating communicator '", options.name, "' (rank ", rank, " of ", size, ")");
  if (size < 1 || size > kMostMembers) return invalid(context, ": size must be 1..", kMostMembers);
  if (rank < 0 || rank >= size) return invalid(context, ": rank must be 0..", size - 1);
  if (options.name.empty() || options.name.size() > 512)
    return invalid(context, ": the name must have 1 to 512 characters");
  if (options.timeout.count() <= 0)
    return invalid(context, ": the timeout must be positive, not ", options.timeout.count(), " ms");
  const Deadline deadline = Deadline::in(options.timeout);
  if (!LiveNames::take(options.name, rank))
    return invalid(context, ": a communicator of this name and rank is alive in this process");
  const Meeting meeting = Meeting::next(store, options.name, rank);
  const auto failed = [&](const Error& error) {
    if (size > 1) meeting.tellFailure(error);
    LiveNames::give(options.name, rank);
    return error.in(context);
  };
  if (Status status = environmentStatus(); !status) return failed(status.error());
  Result<PlanRules> rules = askedRules(options);
  if (!rules) return failed(rules.error());
  Result<Heap*> heap = Heap::ofDevice(options.device);
  if (!heap) return failed(heap.error());
  Result<std::size_t> area = AreaAllocator::of(**heap).take(size);
  if (!area) return failed(area.error());
  std::unique_ptr<Group> group;
  if (size == 1) {
    group = aloneGroup(options.name, **heap, *area);
  } else {
    if (rank == 0) rules->costs = measuredCosts();
    Result<std::unique_ptr<Group>> joined = join(meeting, options, size, **heap, *area, deadline, *rules);
    if (!joined) return failed(joined.error());
    group = std::move(*joined);
  }
  rules->threads = threadsOf(*group);
  rules->highPriority = options.highPriority;
  return std::shared_ptr<Communicator>(new CommunicatorImpl(Core::make(std::move(group), *rules), options.timeout));
}

}  // namespace symccl
