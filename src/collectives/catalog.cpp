#include "collectives/catalog.hpp"

#include "collectives/algorithms.hpp"

namespace symccl {

namespace {

template <class... Kinds>
constexpr std::uint32_t kinds(Kinds... each) {
  return ((1u << static_cast<unsigned>(each)) | ...);
}

constexpr std::uint32_t kReductions = kinds(Kind::allReduce, Kind::reduce);
constexpr std::uint32_t kScattered = kinds(Kind::reduceScatter, Kind::reduceScatterV);
constexpr std::uint32_t kMoves = kinds(Kind::broadcast, Kind::allGather, Kind::allToAll, Kind::gather, Kind::scatter,
                                       Kind::allGatherV, Kind::allToAllV, Kind::gatherV, Kind::scatterV);
constexpr std::uint32_t kRooted = kinds(Kind::broadcast, Kind::reduce);

bool inlined(const Situation& s) { return s.form == Form::inlined; }
bool eager(const Situation& s) { return s.form == Form::eager; }
bool zeroCopyFrom(const Situation& s) { return s.inputs && !s.stagedOnly; }
bool zeroCopyTo(const Situation& s) { return s.outputs && !s.stagedOnly; }
bool zeroCopy(const Situation& s) { return zeroCopyFrom(s) && zeroCopyTo(s); }
bool twoShotRuns(const Situation& s) {
  // What is scattered goes to the own output only.
  return scatters(s.kind) ? zeroCopyFrom(s) : zeroCopy(s);
}
// Nobody may overwrite an input before all have read it; a reduce's is read by the root alone.
bool oneShotRuns(const Situation& s) { return zeroCopyFrom(s) && (s.kind == Kind::reduce || !s.overlap); }
// In place a delivery of an all-to-all would overwrite what has not left yet.
bool inPlaceAllToAll(const Situation& s) { return s.kind == Kind::allToAll && s.overlap; }
bool pullRuns(const Situation& s) { return zeroCopyFrom(s) && !inPlaceAllToAll(s); }
bool pushRuns(const Situation& s) { return zeroCopyTo(s) && !inPlaceAllToAll(s); }

constexpr Algorithm kAlgorithms[] = {
    {"inline line", Path::inlined, inlineLine, Named::inlined, kReductions | kScattered | kMoves, true, inlined,
     inlineLineWork},
    {"eager one-shot", Path::eager, eagerOneShot, Named::eager, kReductions | kScattered | kMoves, true, eager,
     eagerOneShotWork},
    {"two-shot", Path::zeroCopy, twoShot, Named::twoShot, kReductions | kScattered, true, twoShotRuns, twoShotWork},
    {"one-shot", Path::zeroCopy, oneShot, Named::oneShot, kReductions, true, oneShotRuns, oneShotWork},
    {"split broadcast", Path::zeroCopy, splitBroadcast, Named::split, kinds(Kind::broadcast), true, zeroCopy,
     splitBroadcastWork},
    {"push", Path::zeroCopy, push, Named::push, kMoves, true, pushRuns, pushWork},
    {"pull", Path::zeroCopy, pull, Named::pull, kMoves, true, pullRuns, pullWork},
    {"staged reduce", Path::staged, stagedReduce, Named::staged, kReductions, true, nullptr, stagedReduceWork},
    {"staged reduce-scatter", Path::staged, stagedReduceScatter, Named::staged, kScattered, true, nullptr,
     stagedReduceScatterWork},
    {"staged move", Path::staged, stagedMove, Named::staged, kMoves, true, nullptr, stagedMoveWork},
    {"ring", Path::staged, ring, Named::ring, kRooted | kinds(Kind::allReduce, Kind::reduceScatter, Kind::allGather),
     false, nullptr, ringWork},
    {"tree", Path::staged, tree, Named::tree, kRooted | kinds(Kind::allReduce, Kind::gather, Kind::scatter), false,
     nullptr, treeWork},
    {"double tree", Path::staged, doubleTree, Named::doubleTree, kRooted | kinds(Kind::allReduce), false, nullptr,
     doubleTreeWork},
    {"halving-doubling", Path::staged, halvingDoubling, Named::halvingDoubling,
     kinds(Kind::allReduce, Kind::reduceScatter, Kind::allGather), false, nullptr, halvingDoublingWork},
    {"pairwise", Path::staged, pairwise, Named::pairwise, kinds(Kind::reduceScatter, Kind::allToAll), false, nullptr,
     pairwiseWork},
};

}  // namespace

std::span<const Algorithm> catalog() { return kAlgorithms; }

}  // namespace symccl
