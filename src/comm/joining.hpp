// How ranks meet: entries through the store, links, heaps, and what ends that early.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/membership.hpp"

namespace symccl {

/// The keys in the store of one instance of a communicator, for one rank.
class Meeting {
 public:
  /// The instance that this process's next creation of `name` as `rank` belongs to. Every rank that fails counts too,
  /// so that ranks which try again together meet again.
  static Meeting next(Store& store, const std::string& name, int rank);

  Store& store() const { return store_; }
  int rank() const { return rank_; }
  std::string key(const std::string& what) const { return prefix_ + what; }
  std::string key(int rank) const { return prefix_ + std::to_string(rank); }

  /// Says in the store that this rank cannot take part, so that nobody waits for it. The first to fail is heard.
  void tellFailure(const Error& error) const;
  /// Success, or what the first rank that failed has said. One look at the store.
  Status failure() const;

 private:
  Meeting(Store& store, std::string prefix, int rank) : store_(store), prefix_(std::move(prefix)), rank_(rank) {}

  Store& store_;
  const std::string prefix_;
  const int rank_;
};

/// One rank's way through a creation. Every wait ends with the deadline, with a member's death, or with what a rank
/// that failed has said; looked at every 50 ms.
class Joining {
 public:
  Joining(const Meeting& meeting, int size, Deadline deadline);

  /// Rank 0 chooses the epoch, which keeps this instance apart from any other.
  Result<Uuid> agreeOnEpoch();
  Status publish(const MemberEntry& own);
  /// Waits for the entries of all, and compares what must be equal.
  Status collect(const MemberEntry& own);
  Result<std::vector<MemberPlace>> linkAll(Heap& heap);

  /// After collect(): whether some member cannot use membarrier.
  bool fences() const;
  /// After collect(): CPUs that the members share.
  int cpus() const;
  /// After collect(): rank 0's.
  const CostModel& costs() const { return members_.front().entry.costs; }
  /// After collect(): whether a member that yields lets the others run.
  bool yields() const;

 private:
  struct Member {
    bool known = false;
    MemberEntry entry;
    Peer* peer = nullptr;
  };
  Member& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }
  const Member& member(int rank) const { return members_[static_cast<std::size_t>(rank)]; }

  Result<Bytes> awaitKey(const std::string& key, const std::vector<int>& owners);
  Status accept(int rank, const Bytes& bytes);
  Status compare(const MemberEntry& entry, int rank) const;
  Status lookAround();
  Status interrupted() const;
  Status goneMember() const;
  std::string describe(int rank, const std::string& state) const;
  std::string stateOf(int rank) const;
  std::vector<int> missing() const;
  Error blame(const Error& error, int rank) const;
  Result<MemberPlace> link(Links& links, Heap& heap, int rank);

  const Meeting& meeting_;
  const int rank_, size_;
  const Deadline deadline_;
  std::vector<Member> members_;
  int cursor_ = 0;  // whose entry lookAround() looks for next
};

}  // namespace symccl
