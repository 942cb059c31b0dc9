// Staged reduce-scatter: as the staged moves, but what arrives is combined straight into the output.
//
// Cost per rank: 3 N - N/p loaded and stored; one hand-off a slice.

#include "collectives/staged_pieces.hpp"

#include "collectives/algorithms.hpp"

namespace symccl {

Status stagedReduceScatter(Round& round) {
  const Layout& layout = round.layout;
  const StagedPieces pieces(round);
  const std::size_t element = sizeOf(round.operation().type);
  const std::size_t bytes = layout.bytesFrom(round.rank());
  const Round::TimedStores stores(round, Round::Outputs::own, bytes);
  auto& sources = round.scratch().pieces;
  std::uint64_t& slice = round.scratch().slice;
  for (std::size_t offset = 0; offset < pieces.largest(); offset += pieces.chunk()) {
    ++slice;
    if (Status status = pieces.copyIn(offset, slice); !status) return status;
    if (Status status = round.stepAll(); !status) return status;
    if (bytes <= offset) continue;
    sources.clear();
    for (int rank = 0; rank < round.size(); ++rank) {
      sources.push_back(rank == round.rank() ? layout.outgoing(rank) + offset : pieces.at(rank, round.rank(), slice));
    }
    void* target = layout.incoming(round.rank()) + offset;
    const std::size_t now = std::min(pieces.chunk(), bytes - offset) / element;
    if (Status status = round.reduce(sources, {&target, 1}, now, stores); !status) return status;
  }
  return {};
}

Work stagedReduceScatterWork(const Situation& s) {
  const auto n = static_cast<std::int64_t>(s.bytes);
  const std::int64_t peers = s.size - 1;
  const std::int64_t slices = (n * peers + std::int64_t{kStagingSlot} - 1) / std::int64_t{kStagingSlot};
  return {.barriers = 1 + slices, .pushed = peers * n, .pulled = n, .read = n, .readPeer = (peers - 1) * n};
}

}  // namespace symccl
