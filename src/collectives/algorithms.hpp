// The algorithms: one file each, cost and source at its top.
//
// All run after every rank has announced and the plan has been made. p ranks, N bytes of the operation's whole vector
// as in the head of each file. Each returns when this rank's part has ended and nobody touches its buffers any more.
// The cost is also a function, in terms of what the probe measures: that of the slowest rank, out of place.
#pragma once

#include <span>

#include "collectives/algorithm.hpp"
#include "collectives/round.hpp"

namespace symccl {

/// Payload in the announcement: at most 48 bytes, one hand-off.
Status inlineLine(Round& round);
Work inlineLineWork(const Situation& situation);
/// Payload in the eager slot: at most 4 KiB, one hand-off, no exit barrier.
Status eagerOneShot(Round& round);
Work eagerOneShotWork(const Situation& situation);
/// Zero-copy reductions on the users' buffers: each rank combines its part of all inputs and stores it to every output.
Status twoShot(Round& round);
Work twoShotWork(const Situation& situation);
/// Zero-copy reductions without a second step: each rank that wants the result reads all inputs.
Status oneShot(Round& round);
Work oneShotWork(const Situation& situation);
/// Zero-copy moves: each rank fetches what it is given.
Status pull(Round& round);
Work pullWork(const Situation& situation);
/// Zero-copy moves: each rank delivers what it gives.
Status push(Round& round);
Work pushWork(const Situation& situation);
/// Zero-copy broadcast: each rank moves its part of the root's buffer to every output.
Status splitBroadcast(Round& round);
Work splitBroadcastWork(const Situation& situation);
/// Reductions through staging slots.
Status stagedReduce(Round& round);
Work stagedReduceWork(const Situation& situation);
/// Reduce-scatter through staging slots.
Status stagedReduceScatter(Round& round);
Work stagedReduceScatterWork(const Situation& situation);
/// Moves through staging slots.
Status stagedMove(Round& round);
Work stagedMoveWork(const Situation& situation);

// In message form: written over Exchange, the same over whatever carries slices. Partial results go from rank to rank,
// so sums are not in rank order; they are equal on all ranks and in every run.

/// All-reduce, reduce-scatter and all-gather round a ring, broadcast and reduce along it.
Status ring(Round& round);
Work ringWork(const Situation& situation);
/// Binomial tree: broadcast, reduce, all-reduce, gather, scatter.
Status tree(Round& round);
Work treeWork(const Situation& situation);
/// Two binary trees, half of the data each: broadcast, reduce, all-reduce.
Status doubleTree(Round& round);
Work doubleTreeWork(const Situation& situation);
/// Recursive halving and doubling: all-reduce, reduce-scatter, all-gather.
Status halvingDoubling(Round& round);
Work halvingDoublingWork(const Situation& situation);
/// Pairwise exchange: all-to-all, reduce-scatter.
Status pairwise(Round& round);
Work pairwiseWork(const Situation& situation);

/// What inlineLine() and eagerOneShot() share: `rows[s]` is where everything that rank s offers stands in one row.
Status finishOneShot(Round& round, std::span<const std::byte* const> rows);

}  // namespace symccl
