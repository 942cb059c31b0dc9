// The algorithms: one file each, cost and source at its top.
//
// All run after every rank has announced and the plan has been made. p ranks, N bytes of the operation's whole vector
// as in the head of each file. Each returns when this rank's part has ended and nobody touches its buffers any more.
#pragma once

#include <span>

#include "collectives/round.hpp"

namespace symccl {

/// Payload in the announcement: at most 48 bytes, one hand-off.
Status inlineLine(Round& round);
/// Payload in the eager slot: at most 4 KiB, one hand-off, no exit barrier.
Status eagerOneShot(Round& round);
/// Zero-copy reductions on the users' buffers: each rank combines its part of all inputs and stores it to every output.
Status twoShot(Round& round);
/// Zero-copy moves: each rank fetches what it is given.
Status pull(Round& round);
/// Zero-copy moves: each rank delivers what it gives.
Status push(Round& round);
/// Zero-copy broadcast: each rank moves its part of the root's buffer to every output.
Status splitBroadcast(Round& round);
/// Reductions through staging slots.
Status stagedReduce(Round& round);
/// Reduce-scatter through staging slots.
Status stagedReduceScatter(Round& round);
/// Moves through staging slots.
Status stagedMove(Round& round);

/// What inlineLine() and eagerOneShot() share: `rows[s]` is where everything that rank s offers stands in one row.
Status finishOneShot(Round& round, std::span<const std::byte* const> rows);

}  // namespace symccl
