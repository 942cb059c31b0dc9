// Pull: after the entry barrier each rank copies what it is given from the givers' buffers.
//
// Cost per rank: what it receives, loaded and stored once (all-gather and all-to-all 2 N with the own block, broadcast
// 2 N per non-root); two hand-offs. Needs the inputs registered. Each rank begins with another giver, so that no giver
// is read by all at once.

#include "collectives/algorithms.hpp"

namespace symccl {

Status pull(Round& round) {
  const Layout& layout = round.layout;
  std::size_t all = 0;
  for (int peer = 0; peer < round.size(); ++peer) all += layout.bytesFrom(peer);
  const Round::TimedStores stores(round, Round::Outputs::own, all);
  for (int k = 0; k < round.size(); ++k) {
    const int peer = round.rotated(k);
    const std::size_t bytes = layout.bytesFrom(peer);
    if (bytes == 0) continue;
    const std::byte* source = layout.source(peer);
    round.populate(peer, source, bytes);
    if (Status status = round.copy(layout.incoming(peer), source, bytes, stores); !status) return status;
  }
  // Whoever reads this rank's input must have finished; a rank that only takes returns at once.
  round.step();
  for (int peer = 0; peer < round.size(); ++peer) {
    if (peer == round.rank() || layout.bytesTo(peer) == 0) continue;
    if (Status status = round.await(peer); !status) return status;
  }
  return {};
}

Work pullWork(const Situation& s) {
  const auto n = static_cast<std::int64_t>(s.bytes);
  const bool one = s.kind == Kind::broadcast || s.kind == Kind::scatter || s.kind == Kind::scatterV;
  return {.barriers = 2, .copied = one ? 0 : n, .pulled = one ? n : (s.size - 1) * n};
}

}  // namespace symccl
