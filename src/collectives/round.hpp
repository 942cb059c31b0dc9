// One collective while it runs: what its algorithm may use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/layout.hpp"
#include "collectives/priority.hpp"
#include "collectives/store_tuner.hpp"
#include "kernels/kernels.hpp"
#include "protocol/group.hpp"

namespace symccl {

/// Bytes that this rank's copies and reductions loaded and stored.
struct Traffic {
  std::uint64_t loaded = 0, stored = 0;
};

/// Kept by the lane from one operation to the next, so that an operation allocates nothing.
struct Scratch {
  std::vector<const std::byte*> rows;  ///< by rank: inputs in one row
  std::vector<const void*> pieces;     ///< by rank: what an algorithm reads
  std::vector<void*> targets;          ///< where it writes
  /// Of one thread: the addresses of a block, used by Round::reduce() and copyToAll().
  struct Addresses {
    std::vector<const void*> sources;
    std::vector<void*> destinations;
  };
  std::vector<Addresses> blocks;  ///< by thread
  std::vector<double> factors;    ///< by rank: premulSum
  std::uint64_t slice = 0;        ///< staged slices so far: selects the input slot, equal on all ranks
};

/// How this rank moves bytes; its own affair. Kept by the lane.
struct Moving {
  StoreTuner toPeers, toOwn;
  int threads;    ///< for a large operation
  bool givesWay;  ///< to operations of high priority
};

/// The operation, its layout, and the group's steps. Data moves only through copy(), copyToAll() and reduce(), which
/// look at the error words at least every 256 KiB and count the traffic.
class Round {
 public:
  Round(Group& group, const Operation& operation, const std::vector<Call>& calls, const Doing& doing, Deadline deadline,
        Scratch& scratch, Moving& moving)
      : layout(group, operation, calls, doing.number),
        group_(group),
        doing_(doing),
        deadline_(deadline),
        scratch_(scratch),
        moving_(moving) {}

  const Layout layout;

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }
  const Operation& operation() const { return layout.operation(); }
  const Call& call(int rank) const { return layout.calls()[static_cast<std::size_t>(rank)]; }
  const ControlArea& area(int rank) const { return group_.area(rank); }
  std::uint64_t number() const { return doing_.number; }
  Scratch& scratch() { return scratch_; }
  const Traffic& traffic() const { return traffic_; }

  /// The k-th peer in this rank's own order, k in 1..size-1: each rank begins with another one.
  int rotated(int k) const { return (rank() + k) % size(); }

  /// Publishes a step, then waits until every rank has published as many.
  Status stepAll();
  void step() { group_.step(); }
  std::uint64_t steps() const { return group_.steps(); }
  Status awaitAll() { return group_.awaitSteps(group_.steps(), doing_, deadline_); }
  Status await(int peer) { return group_.awaitStep(peer, group_.steps(), doing_, deadline_); }

  /// Whose memory an operation writes to: this rank's, which reads it next, or that of others, whose caches hold it.
  enum class Outputs : unsigned char { own, peers };
  /// How to store the results of an operation that writes `bytes` to each output. For its lifetime the stores are
  /// timed, where that may change the next choice.
  class TimedStores {
   public:
    TimedStores(Round& round, Outputs outputs, std::size_t bytes);
    TimedStores(const TimedStores&) = delete;
    TimedStores& operator=(const TimedStores&) = delete;
    ~TimedStores();
    operator Stores() const { return stores_; }

   private:
    StoreTuner& tuner_;
    const Kind kind_;
    const std::size_t bytes_;
    const bool timed_;
    const Stores stores_;
    const Deadline::Clock::time_point start_ = timed_ ? Deadline::Clock::now() : Deadline::Clock::time_point();
  };

  Status copy(void* destination, const void* source, std::size_t bytes, Stores stores);
  /// To the scratch's destinations. Null destinations are skipped by the caller.
  Status copyToAll(std::span<void* const> destinations, const void* source, std::size_t bytes, Stores stores);
  /// Combines `count` elements of the operation's type from `sources` (one per rank, in rank order) into
  /// `destinations`.
  Status reduce(std::span<const void* const> sources, std::span<void* const> destinations, std::size_t count,
                Stores stores);
  /// Any reduction of pieces of the operation.
  Status reduce(const Reduction& whole);

  /// Maps the pages of a peer's range in one call where they were not seen before.
  void populate(int peer, const void* address, std::size_t bytes) const;

 private:
  Status interrupted() { return group_.interrupted(doing_); }
  const double* factors();
  template <class Move>
  Status inBlocks(std::size_t count, std::size_t elementBytes, const Move& move);

  Group& group_;
  const Doing& doing_;
  const Deadline deadline_;
  Scratch& scratch_;
  Moving& moving_;
  GivingWay givingWay_;
  Traffic traffic_;
  bool factorsReady_ = false;
};

/// The part [first, last) of `count` elements that `rank` of `size` works on: near equal, cut at multiples of 64 bytes.
struct Part {
  std::size_t first, last;
  std::size_t count() const { return last - first; }
};
Part partOf(std::size_t count, std::size_t elementBytes, int rank, int size);

}  // namespace symccl
