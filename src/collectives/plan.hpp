// Which algorithm: a pure function of what all ranks announced.
#pragma once

#include <span>

#include "collectives/algorithms.hpp"
#include "collectives/call.hpp"

namespace symccl {

/// How an operation's data travels; counters and trace lines tell it.
enum class Path : std::uint8_t { none, inlined, eager, zeroCopy, staged };
const char* nameOf(Path path);

/// One algorithm, with its name for traces.
struct Algorithm {
  const char* name;
  Path path;
  Status (*run)(Round&);
};

/// What plan() decided. `sendPrivate`, `recvPrivate`: why staged.
struct Plan {
  const Algorithm* algorithm;
  bool sendPrivate = false, recvPrivate = false;
};

/// `calls` by rank, all the same call. Every rank gets the same answer. `stagedOnly`: SYMCCL_PATH=staged, equal on all
/// ranks.
Plan plan(std::span<const Call> calls, bool stagedOnly);

/// Success if all ranks called the same operation; else Code::mismatch with every rank's call.
Status sameCall(std::span<const Call> calls);

}  // namespace symccl
