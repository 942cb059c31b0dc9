// Eager one-shot: every rank copies its input into a slot before it announces; afterwards each reads the slots it
// needs.
//
// Cost: one hand-off, (p + 1) N bytes loaded and stored per rank for reductions. N < 4 KiB. No exit barrier: slots
// alternate by the parity of the operation, and nobody begins n before everybody has left n-2 (docs/protocol.md 2.2).

#include "collectives/algorithms.hpp"

namespace symccl {

Status eagerOneShot(Round& round) {
  auto& rows = round.scratch().rows;
  rows.clear();
  for (int rank = 0; rank < round.size(); ++rank) rows.push_back(round.area(rank).eagerSlot(round.number()));
  return finishOneShot(round, rows);
}

Status finishOneShot(Round& round, std::span<const std::byte* const> rows) {
  const Layout& layout = round.layout;
  const auto piece = [&](int source) { return rows[static_cast<std::size_t>(source)] + layout.rowOffset(source); };
  if (!reduces(round.operation().kind)) {
    for (int k = 0; k < round.size(); ++k) {
      const int source = round.rotated(k);
      const std::size_t bytes = layout.bytesFrom(source);
      if (bytes == 0) continue;
      if (Status status = round.copy(layout.incoming(source), piece(source), bytes, Stores::ordinary); !status)
        return status;
    }
    return {};
  }
  if (round.operation().kind == Kind::reduce && round.rank() != round.operation().root) return {};
  auto& pieces = round.scratch().pieces;
  pieces.clear();
  for (int source = 0; source < round.size(); ++source) pieces.push_back(piece(source));
  void* result = layout.incoming(round.rank());
  return round.reduce(pieces, {&result, 1}, layout.bytesFrom(round.rank()) / sizeOf(round.operation().type),
                      Stores::ordinary);
}

Work eagerOneShotWork(const Situation& s) {
  const auto n = static_cast<std::int64_t>(s.bytes);
  Work work{.barriers = 1, .pushed = static_cast<std::int64_t>(offeredBytes(s.kind, s.bytes, s.size))};
  if (reduces(s.kind)) {
    work.read = work.pulled = n;
    work.readPeer = (s.size - 2) * n;
  } else {
    work.pulled = s.kind == Kind::broadcast || s.kind == Kind::scatter ? n : (s.size - 1) * n;
  }
  return work;
}

}  // namespace symccl
