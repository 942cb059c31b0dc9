// Which algorithm: a pure function of what all ranks announced and of rules agreed at creation.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "collectives/algorithm.hpp"
#include "collectives/choice.hpp"

namespace symccl {

/// What plans depend on beside the announcements: agreed when a communicator is created, equal on all ranks.
struct PlanRules {
  bool stagedOnly = false;  ///< SYMCCL_PATH=staged: never zero-copy
  Choice choice;
  /// Bytes of the call's count: up to the first a tree, from the second on a ring, where the operation has them and
  /// nothing else was chosen.
  std::optional<std::uint64_t> treeThreshold, ringThreshold;
  int cpus = 1;  ///< that the ranks share
  CostModel costs = assumedCosts();
  int threads = 1;            ///< of this rank, for a large operation; not agreed on
  bool highPriority = false;  ///< CommunicatorOptions::highPriority; not agreed on
};

/// What plan() decided. `sendPrivate`, `recvPrivate`: why staged.
struct Plan {
  const Algorithm* algorithm;
  bool sendPrivate = false, recvPrivate = false;
};

/// `calls` by rank, all the same call. Every rank gets the same answer: what the rules ask for where it can be had,
/// else the cheapest of the algorithms that combine in rank order.
Plan plan(std::span<const Call> calls, const PlanRules& rules);

/// The same for a described operation: the algorithm.
const Algorithm& choose(const Situation& situation, const PlanRules& rules);
/// Each algorithm that this operation has.
struct Estimate {
  const Algorithm* algorithm;
  bool possible;  ///< its preconditions hold
  std::uint64_t picoseconds;
};
std::vector<Estimate> estimates(const Situation& situation, const PlanRules& rules);

/// Success if all ranks called the same operation; else Code::mismatch with every rank's call.
Status sameCall(std::span<const Call> calls);

}  // namespace symccl
