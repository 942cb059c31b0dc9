// How ranks become a group: entries through the store, links, heaps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "collectives/plan.hpp"
#include "protocol/group.hpp"
#include "symccl/communicator.hpp"
#include "symccl/store.hpp"

namespace symccl {

/// What every rank publishes before it joins.
struct MemberEntry {
  ProcessEntry process;
  int size = 0;  ///< of the communicator
  Uuid heap;
  int ordinal = 0;
  std::uint64_t heapBytes = 0;
  std::uint64_t areaOffset = 0;
  std::uint64_t layout = 0;
  std::string settings;  ///< what all ranks must agree on, as text
  CostModel costs;       ///< rank 0's count
  bool membarrier = false;
  std::string affinity;  ///< CPUs that its process may run on, as the kernel's bit mask
  int cpus = 1;          ///< how many of them the cgroup lets it use at once
  std::string schedulingGroup;

  Bytes write() const;
  static Result<MemberEntry> read(const Bytes& bytes, int rank);
};

/// This process's own entry in a communicator of `size` ranks, for an area in `heap`.
Result<MemberEntry> ownEntry(int size, const Heap& heap, std::size_t areaOffset, std::string settings);

/// What the environment and a communicator's options ask of plans; the costs and the CPUs are assumptions.
Result<PlanRules> askedRules(const CommunicatorOptions& options);

class Meeting;

/// Publishes the area, collects every rank's entry, links to all and maps their heaps; returns when all have done so.
/// If it fails others may know the area: its error words then say so, and it must not be used again. Completes `rules`
/// with what the ranks agree on.
Result<std::unique_ptr<Group>> join(const Meeting& meeting, const CommunicatorOptions& options, int size, Heap& heap,
                                    std::size_t areaOffset, Deadline deadline, PlanRules& rules);

/// Says in an area that others may know that its owner does not take part: members that got through see it as soon as
/// they wait for this rank.
void withdraw(const ControlArea& area, int rank, const Error& error);

/// The group of a communicator with one rank, which needs neither store nor links.
std::unique_ptr<Group> aloneGroup(const std::string& name, Heap& heap, std::size_t areaOffset);

/// The group of some members of a parent, whose processes are linked already: `ranks` are theirs in the parent, `areas`
/// their areas, by rank in the new group.
std::unique_ptr<Group> subgroup(const Group& parent, const std::string& name, const Uuid& epoch, int rank,
                                const std::vector<int>& ranks, const std::vector<std::size_t>& areas);

}  // namespace symccl
