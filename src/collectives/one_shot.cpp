// One-shot on the users' buffers: each rank that wants the result combines all inputs into its own output.
//
// Cost per rank: (p + 1) N loaded and stored; two hand-offs (entry, exit). Needs the inputs registered only, and no
// rank in place, but for a reduce, whose root alone reads and writes. Cheaper than two-shot where nothing has to be
// stored into memory that a peer holds: few ranks, small N, or private outputs. Source: the one-shot all-reduce of
// symmetric-memory GPU libraries.

#include "collectives/algorithms.hpp"

namespace symccl {

Status oneShot(Round& round) {
  const Layout& layout = round.layout;
  const bool rooted = round.operation().kind == Kind::reduce;
  const std::size_t bytes = layout.countBytes();
  if (!rooted || round.rank() == round.operation().root) {
    auto& sources = round.scratch().pieces;
    sources.clear();
    for (int rank = 0; rank < round.size(); ++rank) {
      const std::byte* source = layout.source(rank);
      round.populate(rank, source, bytes);
      sources.push_back(source);
    }
    void* result = layout.incoming(round.rank());
    const Round::TimedStores stores(round, Round::Outputs::own, bytes);
    if (Status status = round.reduce(sources, {&result, 1}, round.operation().count, stores); !status) return status;
  }
  if (!rooted) return round.stepAll();
  round.step();
  return round.rank() == round.operation().root ? Status() : round.await(round.operation().root);
}

Work oneShotWork(const Situation& s) {
  const auto n = static_cast<std::int64_t>(s.bytes);
  return {.barriers = 2, .pulled = n, .read = n, .readPeer = (s.size - 2) * n};
}

}  // namespace symccl
