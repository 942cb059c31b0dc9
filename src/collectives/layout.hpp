// Where each rank's piece for each other rank lies: one view of every kind, uniform or v.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/call.hpp"
#include "protocol/group.hpp"
#include "symccl/communicator.hpp"

namespace symccl {

/// A rank's buffer pieces in a collective. "s to d" is what rank s gives to rank d: in broadcast the root's buffer to
/// each other rank, in all-to-all block d of s, in reduce-scatter block d of s (which d combines), in all-reduce and
/// reduce the whole input. Bytes throughout.
class Layout {
 public:
  Layout(const Group& group, const Operation& own, const std::vector<Call>& calls, std::uint64_t n)
      : group_(group), own_(own), calls_(calls), n_(n) {}

  // This rank's own side.

  /// Bytes of the piece that this rank gives to `peer`, and where it lies.
  std::size_t bytesTo(int peer) const;
  const std::byte* outgoing(int peer) const;
  /// Bytes of the piece that this rank gets from `peer`, and where it goes. (Kinds that reduce: where the result goes.)
  std::size_t bytesFrom(int peer) const;
  std::byte* incoming(int peer) const;

  // The peers' side, in their heaps as mapped here. Only where they are located.

  /// Where the piece lies that `peer` gives to this rank.
  const std::byte* source(int peer) const;
  /// Where `peer` wants the piece that this rank gives to it.
  std::byte* target(int peer) const;

  /// Where the piece from `peer` to this rank begins when all that `peer` offers stands in one row, as in an eager
  /// slot.
  std::size_t rowOffset(int peer) const;
  /// Bytes of a whole buffer of `count` elements.
  std::size_t countBytes() const { return own_.count * sizeOf(own_.type); }
  /// Whether `sender` gives every rank the same piece.
  bool sameForAll() const;

  /// Fills this rank's table for a v kind, and into `call` what the others compare.
  void describe(std::uint64_t n, const Heap& heap, Call& call) const;
  /// Checks for v kinds that all ranks agree on the sizes, the same on every rank; and every location that this rank
  /// will use against the size of its heap.
  Status verify() const;

  const Operation& operation() const { return own_; }
  const std::vector<Call>& calls() const { return calls_; }

 private:
  std::byte* at(int peer, std::uint64_t location) const { return group_.place(peer).heapBase + location; }
  std::size_t uniformBytes(int from, int to) const;
  Status verifySizes() const;
  Status verifyLocations(int peer) const;
  int rank() const { return group_.rank(); }
  std::size_t part(int rank) const { return countBytes() * static_cast<std::size_t>(rank); }

  const Group& group_;
  const Operation& own_;
  const std::vector<Call>& calls_;
  const std::uint64_t n_;
};

}  // namespace symccl
