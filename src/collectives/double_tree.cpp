// Double binary tree, in message form: broadcast, reduce, all-reduce (up, then down). Two trees carry a half each; who
// is inside in one is a leaf in the other, so that all ranks work.
//
// Cost: with s slices of each half, (s + log2 p) (alpha + beta N/s) for broadcast and reduce, all-reduce twice that.
// Source: Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
// Computing 2009.

#include <bit>

#include "collectives/algorithms.hpp"
#include "collectives/pipeline.hpp"

namespace symccl {

Status doubleTree(Round& round) {
  const Operation& operation = round.operation();
  const int root = operation.kind == Kind::allReduce ? 0 : operation.root;
  return runAlong(round, doubleTree(round.rank(), root, round.size()));
}

Work doubleTreeWork(const Situation& s) {
  return alongTreesWork(s, std::bit_width(static_cast<unsigned>(s.size - 1)), 2, 2);
}

}  // namespace symccl
