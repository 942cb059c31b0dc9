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

/// What plans depend on beside the announcements: agreed when a communicator is created, equal on all ranks.
struct PlanRules {
  bool stagedOnly = false;  ///< SYMCCL_PATH=staged: never zero-copy
};

/// `calls` by rank, all the same call. Every rank gets the same answer.
Plan plan(std::span<const Call> calls, const PlanRules& rules);

/// Success if all ranks called the same operation; else Code::mismatch with every rank's call.
Status sameCall(std::span<const Call> calls);

}  // namespace symccl
