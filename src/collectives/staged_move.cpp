// Staged moves (all-gather, all-to-all, broadcast, gather, scatter): slices through the control areas, one step a
// slice.
//
// Cost per rank: what it gives and what it takes, each loaded and stored once (all-gather 2 N + 2 N/p, all-to-all 4 N -
// 2 N/p, broadcast 2 N); the own piece is copied straight; one hand-off a slice. Two input slots, by the number of the
// slice (docs/protocol.md 2.4).

#include "collectives/staged_pieces.hpp"

#include "collectives/algorithms.hpp"

namespace symccl {

Status stagedMove(Round& round) {
  const Layout& layout = round.layout;
  const StagedPieces pieces(round);
  std::size_t all = 0;
  for (int peer = 0; peer < round.size(); ++peer) all += layout.bytesFrom(peer);
  const Round::TimedStores stores(round, Round::Outputs::own, all);
  std::uint64_t& slice = round.scratch().slice;
  for (std::size_t offset = 0; offset < pieces.largest(); offset += pieces.chunk()) {
    ++slice;
    if (Status status = pieces.copyIn(offset, slice); !status) return status;
    if (Status status = round.stepAll(); !status) return status;
    for (int k = 1; k < round.size(); ++k) {
      const int peer = round.rotated(k);
      const std::size_t bytes = layout.bytesFrom(peer);
      if (bytes <= offset) continue;
      const std::size_t now = std::min(pieces.chunk(), bytes - offset);
      if (Status status = round.copy(layout.incoming(peer) + offset, pieces.at(peer, round.rank(), slice), now, stores);
          !status) {
        return status;
      }
    }
  }
  const std::size_t own = layout.bytesFrom(round.rank());
  return own == 0 ? Status() : round.copy(layout.incoming(round.rank()), layout.outgoing(round.rank()), own, stores);
}

Work stagedMoveWork(const Situation& s) {
  const auto n = static_cast<std::int64_t>(s.bytes);
  const std::int64_t peers = s.size - 1, slot = kStagingSlot;
  switch (s.kind) {
    case Kind::broadcast:
      return {.barriers = 1 + (n + slot - 1) / slot, .pushed = std::min(n, slot), .pulled = n};
    case Kind::scatter:
    case Kind::scatterV:
      return {.barriers = 1 + (n * peers + slot - 1) / slot, .copied = n, .pushed = peers * n, .pulled = n};
    case Kind::allToAll:
    case Kind::allToAllV:
      return {.barriers = 1 + (n * peers + slot - 1) / slot, .copied = n, .pushed = peers * n, .pulled = peers * n};
    default:
      return {.barriers = 1 + (n + slot - 1) / slot, .copied = n, .pushed = n, .pulled = peers * n};
  }
}

}  // namespace symccl
