// What plan() knows about an algorithm.
#pragma once

#include <cstdint>

#include "collectives/call.hpp"
#include "collectives/cost_model.hpp"
#include "collectives/round.hpp"

namespace symccl {

/// How an operation's data travels; counters and trace lines tell it. Algorithms in message form are staged.
enum class Path : std::uint8_t { none, inlined, eager, zeroCopy, staged };
const char* nameOf(Path path);

/// What users can ask for by name.
enum class Named : std::uint8_t {
  automatic,
  inlined,
  eager,
  oneShot,
  twoShot,
  pull,
  push,
  split,
  staged,
  ring,
  tree,
  doubleTree,
  halvingDoubling,
  pairwise,
};

/// An operation as plans see it: the same on all ranks.
struct Situation {
  Kind kind = Kind::barrier;
  int size = 1;                          ///< ranks
  int cpus = 1;                          ///< that they share
  std::uint64_t bytes = 0;               ///< of the call's count; v kinds: of the largest piece
  Form form = Form::buffers;             ///< that all ranks used
  bool inputs = false, outputs = false;  ///< located on all ranks
  bool overlap = false;                  ///< on some rank the output overlaps the input
  bool stagedOnly = false;
};

/// One algorithm. Those that are not in rank order run only where they are asked for.
struct Algorithm {
  const char* name;  ///< for traces and reports
  Path path;
  Status (*run)(Round&);
  Named named = Named::automatic;
  std::uint32_t kinds = 0;  ///< bit per Kind
  bool rankOrder = true;
  bool (*possible)(const Situation&) = nullptr;  ///< null: always
  Work (*work)(const Situation&) = nullptr;

  bool serves(Kind kind) const { return (kinds >> static_cast<unsigned>(kind) & 1) != 0; }
  bool runs(const Situation& situation) const {
    return serves(situation.kind) && (possible == nullptr || possible(situation));
  }
};

}  // namespace symccl
