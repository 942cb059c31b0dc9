#include "collectives/probe.hpp"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "base/barrier.hpp"
#include "base/wait.hpp"
#include "bootstrap/quiet_thread.hpp"
#include "collectives/store_tuner.hpp"
#include "kernels/kernels.hpp"

namespace symccl {

namespace {

using Clock = Deadline::Clock;

constexpr std::chrono::milliseconds kLongest{25};
constexpr int kHandoffs = 100;
constexpr std::size_t kLargest = CostModel::kSizes.back();
constexpr std::uint64_t kLeastRate = 1'000;

/// Private memory with its pages there.
class ProbeMemory {
 public:
  explicit ProbeMemory(std::size_t bytes) : bytes_(bytes) {
    void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (mapped != MAP_FAILED) data_ = static_cast<std::byte*>(mapped);
  }
  ProbeMemory(const ProbeMemory&) = delete;
  ProbeMemory& operator=(const ProbeMemory&) = delete;
  ~ProbeMemory() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }
  std::byte* data() const { return data_; }

 private:
  const std::size_t bytes_;
  std::byte* data_ = nullptr;
};

/// Two threads that wait for each other as two ranks do, the second one on another CPU: it answers, and it writes
/// memory so that the first one finds the lines in another core's caches.
class Pair {
 public:
  Pair() {
    for (int self : {0, 1}) {
      Side& side = sides_[static_cast<std::size_t>(self)];
      for (std::size_t member : {0u, 1u}) side.members[member] = {&sides_[member].bell, &sides_[member].errors, &gone_};
      side.context.self = self;
      side.context.members = side.members;
      side.context.fences = !membarrierRegistered();
      side.context.budget = waitBudget(2, 2, true);
      side.context.deadline = deadline_;
      side.context.counts = [](const WaitContext&, int, int, std::uint64_t, std::uint64_t) { return false; };
    }
    Result<std::thread> started = startQuietThread("symccl-probe", [this, cpu = ::sched_getcpu()] { answer(cpu); });
    if (started) partner_ = std::move(*started);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() {
    stop_.store(true, std::memory_order_relaxed);
    publish(sides_[0]);
    lookAtBells(sides_[0].context);
    if (partner_.joinable()) partner_.join();
  }

  bool works() { return partner_.joinable() && exchange({}) && elsewhere_; }
  bool late() const { return deadline_.passed(); }
  /// The partner writes the whole range, then this returns.
  bool exchange(std::span<std::byte> range) {
    if (lost_) return false;
    order_ = range;
    publish(sides_[0]);
    lost_ = !await(0);
    return !lost_;
  }

 private:
  struct alignas(128) Side {
    Bell bell{};
    ErrorWords errors{};
    SharedWord<std::uint64_t> turn{};
    std::array<WatchedMember, 2> members{};
    WaitContext context{};
  };
  void publish(Side& side) {
    side.turn.publish(++turns_[&side == sides_.data() ? 0u : 1u]);
    side.context.dirty = true;
  }
  bool await(int self) {
    const auto own = static_cast<std::size_t>(self);
    const std::uint64_t wanted = self == 0 ? turns_[0] : turns_[1] + 1;
    const SharedWord<std::uint64_t>& word = sides_[1 - own].turn;
    const WaitEnd end = waitUntil(sides_[own].context, 1 - self, [&](Poll poll) { return word.poll(poll) >= wanted; });
    lookAtBells(sides_[own].context);
    return end == WaitEnd::satisfied;
  }

  void answer(int cpu) {
    elsewhere_ = leave(cpu);
    unsigned char value = 0;
    while (await(1) && !stop_.load(std::memory_order_relaxed)) {
      if (!order_.empty()) std::memset(order_.data(), ++value, order_.size());
      publish(sides_[1]);
      lookAtBells(sides_[1].context);
    }
  }
  // Ranks are often bound to a CPU each, and the partner stands for another rank.
  static bool leave(int cpu) {
    cpu_set_t set;
    std::memset(&set, 0xff, sizeof(set));
    CPU_CLR(static_cast<std::size_t>(cpu), &set);
    return ::sched_setaffinity(0, sizeof(set), &set) == 0;
  }

  const Deadline deadline_ = Deadline::in(kLongest);
  const std::atomic<bool> gone_{false};
  std::array<Side, 2> sides_;
  std::array<std::uint64_t, 2> turns_{};  // each written by its side
  std::span<std::byte> order_;            // the partner's while it has not answered
  bool lost_ = false;                     // it has not answered in time, and may do so yet
  std::atomic<bool> stop_{false};
  bool elsewhere_ = false;
  std::thread partner_;
};

class Probe {
 public:
  CostModel run() {
    CostModel costs = assumedCosts();
    if (memory_.data() == nullptr || !pair_.works()) return costs;
    if (!handoff(costs.handoff)) return costs;
    costs.measured = true;
    for (std::size_t i = 0; i < CostModel::kSizes.size(); ++i) {
      CostModel::Rates rates;
      bool complete = false;
      // The best of some: whatever disturbs makes it longer.
      const int repeats = i == 0 ? 5 : 2;
      for (int repeat = 0; repeat < repeats && !pair_.late(); ++repeat) complete = measure(i, rates) || complete;
      if (complete) costs.rates[i] = rates;
      costs.measured = costs.measured && complete;
    }
    chooseStores(costs.streamToPeers);
    return costs;
  }

 private:
  // The smallest size at which streaming is clearly better, from where it is tuned if that is the probe's smallest;
  // larger ones are seldom measured well. As assumed where none is known.
  void chooseStores(std::uint64_t& from) const {
    bool known = false;
    for (std::size_t i = CostModel::kSizes.size(); i-- > 0;) {
      if (pushed_[i] == 0 || streamed_[i] == 0) continue;  // the time did not suffice
      if (!known) from = StoreTuner::kLarge;
      known = true;
      if (streamed_[i] * 10 < pushed_[i] * 9) from = i == 0 ? StoreTuner::kLeast : CostModel::kSizes[i];
    }
  }

  bool handoff(std::uint64_t& best) {
    std::uint64_t least = ~std::uint64_t{0};
    for (int repeat = 0; repeat < 4; ++repeat) {
      const auto start = Clock::now();
      for (int i = 0; i < kHandoffs; ++i) {
        if (!pair_.exchange({})) return false;
      }
      least = std::min(least, picoseconds(start) / (2 * kHandoffs));
    }
    best = std::max<std::uint64_t>(least, 1'000);
    return true;
  }

  // One round; false if it did not end in time.
  bool measure(std::size_t index, CostModel::Rates& best) {
    const auto bytes = static_cast<std::size_t>(CostModel::kSizes[index]);
    std::byte *const one = memory_.data(), *const two = one + kLargest, *const to = two + kLargest,
                     *const peer = to + kLargest;
    const std::span<std::byte> peers(peer, bytes);
    const auto keep = [&](std::uint64_t& rate, std::uint64_t time) {
      const std::uint64_t now = std::max(time * 1024 / bytes, kLeastRate);
      rate = rate == 0 ? now : std::min(rate, now);
    };
    const auto copied = [&](std::byte* target, const std::byte* source, Stores stores) {
      const auto start = Clock::now();
      symccl::copy(target, source, bytes, stores);
      return picoseconds(start);
    };
    const auto combined = [&](std::initializer_list<const void*> sources) {
      void* const target = to;
      const auto start = Clock::now();
      symccl::reduce({DataType::int32, ReduceOp::sum, {sources.begin(), sources.size()}, {&target, 1}, bytes / 4});
      return picoseconds(start);
    };
    (void)combined({one, two});  // brings both to this core
    Sums& sums = sums_[index];
    keep(sums.single, combined({one}));
    keep(sums.both, combined({one, two}));
    if (!pair_.exchange(peers)) return false;
    keep(sums.withPeer, combined({one, peer}));
    for (const Stores stores : {Stores::ordinary, Stores::streaming}) {
      (void)copied(to, one, stores);
      keep(best.copied, copied(to, one, stores));
      if (!pair_.exchange(peers)) return false;
      keep(best.pulled, copied(to, peer, stores));
      if (!pair_.exchange(peers)) return false;
      std::uint64_t& pushed = (stores == Stores::streaming ? streamed_ : pushed_)[index];
      keep(pushed, copied(peer, one, stores));
      best.pushed = best.pushed == 0 ? pushed : std::min(best.pushed, pushed);
    }
    // Differences of what was disturbed least; a further stream is never for nothing.
    const std::uint64_t least = best.copied / 4;
    best.read = std::max(sums.both - std::min(sums.both, sums.single), least);
    best.readPeer = std::max(sums.withPeer - std::min(sums.withPeer, sums.single), best.read);
    return true;
  }

  static std::uint64_t picoseconds(Clock::time_point start) {
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - start).count()) * 1000;
  }

  // Sums of one source, of two own ones, of an own and a peer's.
  struct Sums {
    std::uint64_t single = 0, both = 0, withPeer = 0;
  };
  std::array<Sums, CostModel::kSizes.size()> sums_{};
  std::array<std::uint64_t, CostModel::kSizes.size()> pushed_{}, streamed_{};  // by ordinary and by streaming stores
  ProbeMemory memory_{4 * kLargest};
  Pair pair_;
};

}  // namespace

const CostModel& measuredCosts() {
  static const CostModel costs = Probe().run();
  return costs;
}

}  // namespace symccl
