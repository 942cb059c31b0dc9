// Push: after the entry barrier each rank copies what it gives into the takers' buffers; a piece that all get is loaded
// once.
//
// Cost per rank: all-gather N/p loaded, N stored; all-to-all 2 N; gather 2 N/p; scatter at the root 2 N; two hand-offs.
// Needs the outputs registered.

#include "collectives/algorithms.hpp"

namespace symccl {

namespace {

Status deliver(Round& round) {
  const Layout& layout = round.layout;
  auto& targets = round.scratch().targets;
  targets.clear();
  std::size_t all = 0;
  for (int peer = 0; peer < round.size(); ++peer) all += layout.bytesTo(peer);
  const Round::TimedStores stores(round, Round::Outputs::peers, all);
  for (int k = 0; k < round.size(); ++k) {
    const int peer = round.rotated(k);
    const std::size_t bytes = layout.bytesTo(peer);
    if (bytes == 0) continue;
    std::byte* target = layout.target(peer);
    round.populate(peer, target, bytes);
    if (layout.sameForAll()) {
      if (target != layout.outgoing(peer)) targets.push_back(target);
    } else if (Status status = round.copy(target, layout.outgoing(peer), bytes, stores); !status) {
      return status;
    }
  }
  if (targets.empty()) return {};
  const int any = round.rotated(1);
  return round.copyToAll(targets, layout.outgoing(any), layout.bytesTo(any), stores);
}

}  // namespace

Status push(Round& round) {
  if (Status status = deliver(round); !status) return status;
  round.step();
  for (int peer = 0; peer < round.size(); ++peer) {
    if (peer == round.rank() || round.layout.bytesFrom(peer) == 0) continue;
    if (Status status = round.await(peer); !status) return status;
  }
  return {};
}

Work pushWork(const Situation& s) {
  const auto n = static_cast<std::int64_t>(s.bytes);
  const std::int64_t peers = s.size - 1;
  switch (s.kind) {
    case Kind::broadcast:
      return {.barriers = 2, .pushed = peers * n, .read = -(peers - 1) * n};
    case Kind::allGather:
    case Kind::allGatherV:
      return {.barriers = 2, .copied = n, .pushed = peers * n, .read = -peers * n};
    case Kind::gather:
    case Kind::gatherV:
      return {.barriers = 2, .pushed = n};
    default:
      return {.barriers = 2, .copied = n, .pushed = peers * n};
  }
}

}  // namespace symccl
