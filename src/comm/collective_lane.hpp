// The collective lane of a communicator: one order, one driver at a time. docs/protocol.md, sections 2 and 5.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/counters.hpp"
#include "comm/pins.hpp"
#include "memory/segment_set.hpp"
#include "protocol/group.hpp"
#include "protocol/request.hpp"

namespace symccl {

/// Runs collectives in the order in which they were issued. A blocking call on an idle lane runs in the caller's
/// thread; a started one is driven by whoever waits for it, else by the lane's worker. Thread-safe.
class CollectiveLane : public Driver {
 public:
  /// `group` and `registered` outlive the lane.
  CollectiveLane(Group& group, const SegmentSet& registered, const PlanRules& rules);
  ~CollectiveLane() override;

  /// `self` keeps the lane alive while its worker runs and lets waiters drive it. Call before anything else.
  void ownedBy(std::weak_ptr<Driver> self) { self_ = std::move(self); }

  /// The operation's arguments have been checked.
  Status run(const Operation& operation, Deadline deadline);
  std::shared_ptr<detail::RequestState> start(const Operation& operation, Deadline deadline);
  void drive(const detail::RequestState& request, Deadline deadline) override;
  /// After the group has failed: ends what is queued with its error; when it returns nobody is inside.
  void stop();

  std::uint64_t sequence() const { return sequence_.load(std::memory_order_relaxed); }
  const Counters& counters() const { return counters_; }

 private:
  // What this rank will announce, and what keeps its buffers in place until the operation has ended.
  struct Issue {
    Operation operation;
    Call call;
    Deadline deadline;
    Pins pins;
  };
  struct Queued {
    Issue issue;
    std::vector<Block> sendBlocks, recvBlocks;
    std::shared_ptr<detail::RequestState> request;
  };

  Issue issue(const Operation& operation, Deadline deadline);
  bool locate(const Operation& operation, Call& call, Pins& pins) const;
  Status execute(Issue& issue);
  Status attempt(Issue& issue, const Doing& doing, Round& round);
  std::array<std::uint64_t, 7> announce(Issue& issue, const Doing& doing, const Layout& layout);
  const Algorithm* allAlike(const Call& own, const std::array<std::uint64_t, 7>& words, std::uint64_t n);
  void record(const Operation& operation, const Doing& doing, const Plan& plan, const Round& round);
  Result<Plan> agree(const Doing& doing, const Layout& layout);
  Status readCalls(std::uint64_t n);
  bool touched(std::uint64_t n);
  void fillEagerSlot(const Operation& operation, const Layout& layout, std::byte* slot) const;
  Status backStaging(const Doing& doing);
  Status runAlone(const Operation& operation);
  void trace(const Doing& doing, const Operation& operation, const Plan& plan) const;

  bool driven() const { return (state_.load(std::memory_order_acquire) & kDriven) != 0; }
  void handBack();
  void runFront(std::unique_lock<std::mutex>& lock);
  void work();

  Group& group_;
  const SegmentSet& registered_;
  const PlanRules rules_;
  std::weak_ptr<Driver> self_;
  Counters counters_;
  std::atomic<std::uint64_t> sequence_{0};

  // The driver's.
  std::vector<Call> calls_;
  Scratch scratch_;
  Moving moving_;
  bool stagingBacked_ = false;

  // Free to be taken by a blocking call while it is 0. `kWanted`: something is queued, or the lane is to stop, so that
  // who hands it back must tell. Set and cleared with mutex_ held, but for the quick ways from 0 to kDriven and back.
  static constexpr unsigned kDriven = 1, kWanted = 2;
  std::atomic<unsigned> state_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;                      // guarded by mutex_
  std::deque<std::unique_ptr<Queued>> queue_;  // guarded by mutex_
  std::thread worker_;                         // guarded by mutex_
};

}  // namespace symccl
