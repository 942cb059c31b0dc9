// Inline flag line: the payload travels in the announcement's own cache line.
//
// Cost: one line hand-off, whatever the operation; each rank reads p lines. N <= 48 bytes.
// Source: the flag-with-data protocols of shared-memory MPI and of NCCL's LL; two generations as in
// docs/protocol.md 2.2.

#include <vector>

#include "collectives/algorithms.hpp"

namespace symccl {

Status inlineLine(Round& round) {
  auto& rows = round.scratch().rows;
  rows.clear();
  for (const Call& call : round.layout.calls()) rows.push_back(call.payload.data());
  return finishOneShot(round, rows);
}

Work inlineLineWork(const Situation&) { return {.barriers = 1}; }

}  // namespace symccl
