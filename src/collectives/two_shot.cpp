// Two-shot on the users' buffers: rank i combines part i of every input and stores it straight to every output.
//
// Cost per rank: all-reduce 2 N loaded and stored (N read, N stored), reduce N + N/p, reduce-scatter N + N/p; two
// hand-offs (entry, exit). The bound of docs/performance.md for zero-copy. Source: Rabenseifner's reduce-scatter and
// all-gather, fused because each rank can store into the others' memory; the two-shot all-reduce of symmetric-memory
// GPU libraries.

#include "collectives/algorithms.hpp"

namespace symccl {

namespace {

bool outputAt(const Round& round, int rank) {
  switch (round.operation().kind) {
    case Kind::allReduce:
      return true;
    case Kind::reduce:
      return rank == round.operation().root;
    default:
      return rank == round.rank();
  }
}

}  // namespace

Status twoShot(Round& round) {
  const Layout& layout = round.layout;
  const std::size_t element = sizeOf(round.operation().type);
  const bool scattered = scatters(round.operation().kind);
  const std::size_t count = layout.bytesFrom(round.rank()) / element;
  const Part part = scattered ? Part{0, count} : partOf(count, element, round.rank(), round.size());
  const std::size_t offset = part.first * element, bytes = part.count() * element;

  auto& sources = round.scratch().pieces;
  auto& targets = round.scratch().targets;
  sources.clear();
  targets.clear();
  for (int rank = 0; rank < round.size(); ++rank) {
    const std::byte* source = layout.source(rank) + offset;
    round.populate(rank, source, bytes);
    sources.push_back(source);
    if (!outputAt(round, rank)) continue;
    std::byte* target = layout.target(rank) + offset;
    round.populate(rank, target, bytes);
    targets.push_back(target);
  }
  const bool toPeers = !scattered && (targets.size() > 1 || !outputAt(round, round.rank()));
  const std::size_t all = scattered ? count * element * static_cast<std::size_t>(round.size()) : count * element;
  {
    const Round::TimedStores stores(round, toPeers ? Round::Outputs::peers : Round::Outputs::own, all);
    if (Status status = round.reduce(sources, targets, part.count(), stores); !status) return status;
  }
  return round.stepAll();
}

Work twoShotWork(const Situation& s) {
  const auto n = static_cast<std::int64_t>(s.bytes);
  const std::int64_t peers = s.size - 1, part = n / s.size;
  switch (s.kind) {
    case Kind::allReduce:
      return {.barriers = 2, .copied = -(peers - 1) * part, .pushed = peers * part, .pulled = peers * part};
    case Kind::reduce:
      return {.barriers = 2, .pushed = part, .readPeer = peers * part};
    default:
      return {.barriers = 2, .pulled = n, .read = n, .readPeer = (peers - 1) * n};
  }
}

}  // namespace symccl
