// Data that travels along trees in slices, one level a turn and all levels at once.
#pragma once

#include <span>
#include <vector>

#include "collectives/algorithm.hpp"
#include "collectives/exchange.hpp"
#include "collectives/spanning_tree.hpp"

namespace symccl {

/// One tree and what travels along it. Several lanes share each turn's slice.
struct Lane {
  Place place;
  std::size_t slices = 0;
};

/// What a rank does with a slice of a lane that has come to it.
class Carrier {
 public:
  virtual ~Carrier() = default;
  /// `got`: the slice as the ranks before this one gave it, in the order of `sources`; empty where it begins. `onward`:
  /// where this rank puts it for those behind; null where its way ends.
  virtual Status carry(std::size_t lane, std::size_t slice, std::span<const std::byte* const> got,
                       std::byte* onward) = 0;
};

enum class Way : bool { down, up };

/// From the roots down, or from the leaves up. Takes max(slices + height - 1) turns.
Status alongTrees(Exchange& exchange, Way way, std::span<const Lane> lanes, Carrier& carrier);

/// Bytes of the slices below.
inline constexpr std::size_t kTreeSlice = 64 << 10;
/// `source` at the roots to the operation's output on all ranks; each tree takes a part. The vector has the operation's
/// count.
Status broadcastAlong(Round& round, Exchange& exchange, std::span<const Place> trees, const std::byte* source);
/// Everyone's input, combined, to the operation's output at the roots, which are one rank.
Status reduceAlong(Round& round, Exchange& exchange, std::span<const Place> trees);
/// The kinds broadcast, reduce, and all-reduce (up to rank 0, then down) with trees of this shape.
Status runAlong(Round& round, std::span<const Place> trees);
/// What that costs with `trees` of this height and this number of children of an inner rank.
Work alongTreesWork(const Situation& situation, int height, int children, int trees);

}  // namespace symccl
