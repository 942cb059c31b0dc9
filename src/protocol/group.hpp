// The members of a communicator on this host, as the protocol sees them: their areas, their errors, the waits for them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/wait.hpp"
#include "memory/heap.hpp"
#include "peers/links.hpp"
#include "protocol/control_area.hpp"
#include "protocol/failure.hpp"
#include "symccl/result.hpp"

namespace symccl {

/// Where a member's memory stands in this process.
struct MemberPlace {
  Peer* peer = nullptr;
  std::byte* heapBase = nullptr;
  std::size_t heapBytes = 0;
  MappedHeap* mapped = nullptr;  ///< null: this process's own heap
  bool symmetric = false;
  std::size_t areaOffset = 0;  ///< in that heap
};

/// An announcement as a rank takes it: once, into a local copy, which is then checked and used.
struct Announcement {
  std::uint64_t sequence = 0;
  std::array<std::uint64_t, 7> words{};
};

/// The operation on whose behalf something is done, for sentences: "all_reduce #412".
struct Doing {
  const char* what;
  std::uint64_t number;
};

/// Rules A, S, E and W of the protocol for one communicator. One thread at a time drives each of the two lanes; fail(),
/// abort() and the accessors may be called from any thread.
class Group {
 public:
  struct Identity {
    std::string name;
    int rank = 0;
    int size = 1;
    Uuid epoch;
    bool fences = false;  ///< some member could not register for membarrier
    int cpus = 1;         ///< that the members share
    bool yields = true;   ///< all are in one scheduling group
  };
  Group(Identity identity, Heap& heap, std::vector<MemberPlace> members);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const std::string& name() const { return identity_.name; }
  int rank() const { return identity_.rank; }
  int size() const { return identity_.size; }
  const Uuid& epoch() const { return identity_.epoch; }
  const Identity& identity() const { return identity_; }
  Heap& heap() const { return heap_; }
  const MemberPlace& place(int member) const { return members_[static_cast<std::size_t>(member)]; }
  const ControlArea& area(int member) const { return areas_[static_cast<std::size_t>(member)]; }
  const ControlArea& ownArea() const { return area(rank()); }
  bool gone(int member) const { return place(member).peer->gone().load(std::memory_order_acquire); }
  /// "rank 3 (pid 811) is gone".
  std::string describe(int member) const { return place(member).peer->describe(member); }
  /// The same for several: "rank 1 (pid 5) is stopped, rank 3 (pid 811) is gone".
  std::string describe(const std::vector<int>& members) const;

  // Errors.

  /// "all_reduce #412 on communicator 'dp'".
  std::string describe(const Doing& doing) const;

  /// The sticky error, or success.
  Status status() const;
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// Makes `error` the sticky error if there is none, tells every member and wakes every sleeper; returns the sticky
  /// error. `culprit`: the rank to blame, or -1. `operation`: the operation that failed, or the last one before
  /// destruction.
  Error fail(const Error& error, int culprit, std::uint64_t operation);
  /// What a wait that did not end well means, as the sticky error. `missing`: who has not come (deadline only).
  Error failedWait(WaitEnd end, WaitContext& context, const Doing& doing, const std::vector<int>& missing);
  /// Success, or the sticky error, or a member's error that counts for this operation, which becomes sticky. A few
  /// loads: for the look after arrival, and for big parts at least every 256 KiB.
  Status interrupted(const Doing& doing) { return clean(doing.number) ? Status() : interruption(doing); }

  // Rule A.

  /// Publishes announcement n.
  void announce(std::uint64_t n, const std::array<std::uint64_t, 7>& words);
  /// Waits until every member has announced n, then looks at the bells. Whoever goes on to touch a member's buffers
  /// asks interrupted() first; comparing the announcements comes before that, so that a mismatch is seen by all alike.
  Status arrive(const Doing& doing, Deadline deadline);
  /// The announcement n of a member, after arrive(). Code::corrupt if its line shows another operation.
  Result<Announcement> announced(int member, std::uint64_t n) const;

  // Rule S.

  /// The own step counter.
  std::uint64_t steps() const { return steps_; }
  /// Publishes one more step.
  void step();
  /// Waits until `member` has published the step number `target` (an absolute count, see steps()).
  Status awaitStep(int member, std::uint64_t target, const Doing& doing, Deadline deadline);
  /// ... until every member has.
  Status awaitSteps(std::uint64_t target, const Doing& doing, Deadline deadline);

  // Rule E.

  /// Called by the driver of the collective lane after an operation failed: says that this rank touches nothing any
  /// more. If `touched` (all had announced a zero-copy operation whose last step is `target`), waits at most 100 ms
  /// until nobody can be at this rank's buffers; false if somebody still may be.
  bool leave(bool touched, std::uint64_t target);
  /// Whether every member's announcement n is there, without waiting.
  bool allAnnounced(std::uint64_t n) const;

  // Rule W.

  WaitContext& collective() { return collective_; }
  WaitContext& pointToPoint() { return pointToPoint_; }
  void finishLooking() {
    if (collective_.dirty) lookAtBells(collective_);
  }
  /// Wakes whoever sleeps in this process on behalf of this group (its members' deaths are seen by waiters themselves).
  void wakeOwn();
  /// Ends this end: error word "destroyed" at operation n.
  void destroyed(std::uint64_t n);
  /// After the last touch: nobody of this rank will touch a member's memory again.
  void close();

 private:
  bool clean(std::uint64_t n) const;
  Status interruption(const Doing& doing);
  Error adopt(int member, const Doing& doing);
  void publishFailure(const Failure& failure, std::uint64_t operation);
  /// Waits until `ready(poll, member)` holds for each member in [first, last), in turn. Those of all for whom `came`
  /// does not hold when the deadline passes are named.
  template <class Ready, class Came>
  Status awaitEach(int first, int last, const Doing& doing, Deadline deadline, const Ready& ready, const Came& came);

  const Identity identity_;
  Heap& heap_;
  const std::vector<MemberPlace> members_;
  std::vector<ControlArea> areas_;
  std::vector<WatchedMember> watchedCollective_, watchedPointToPoint_;
  WaitContext collective_, pointToPoint_;
  std::uint64_t steps_ = 0;
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  std::optional<Error> error_;  // guarded by mutex_
};

}  // namespace symccl
