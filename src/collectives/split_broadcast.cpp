// Split broadcast: every rank moves its 1/p of the root's buffer to all outputs, so that all cores work.
//
// Cost per rank: N/p loaded, (p-1) N/p stored; two hand-offs. Needs the root's buffer and all outputs registered.
// Source: the work sharing of two-shot reductions, applied to broadcast.

#include "collectives/algorithms.hpp"

namespace symccl {

Status splitBroadcast(Round& round) {
  const Layout& layout = round.layout;
  const int root = round.operation().root;
  const Part part = partOf(layout.countBytes(), 1, round.rank(), round.size());
  const std::byte* source = layout.source(root) + part.first;
  round.populate(root, source, part.count());
  auto& targets = round.scratch().targets;
  targets.clear();
  for (int k = 0; k < round.size(); ++k) {
    const int peer = round.rotated(k);
    if (peer == root) continue;
    std::byte* target = layout.target(peer) + part.first;
    round.populate(peer, target, part.count());
    targets.push_back(target);
  }
  if (!targets.empty()) {
    const Round::TimedStores stores(round, Round::Outputs::peers, layout.countBytes());
    if (Status status = round.copyToAll(targets, source, part.count(), stores); !status) return status;
  }
  return round.stepAll();
}

Work splitBroadcastWork(const Situation& s) {
  const auto n = static_cast<std::int64_t>(s.bytes);
  const std::int64_t part = n / s.size, others = s.size - 2;
  return {.barriers = 2, .pushed = others * part, .pulled = part, .read = -others * part};
}

}  // namespace symccl
