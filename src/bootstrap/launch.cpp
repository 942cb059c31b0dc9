#include "bootstrap/launch.hpp"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>

#include "base/checks.hpp"

namespace symccl {
namespace {

/// The variables of one launcher. The first two make it; the others may be missing.
struct Names {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* localRank;
  const char* localSize;  ///< null: told in another way
};

// In the order in which they are asked: a launcher that runs inside another comes before it.
constexpr Names kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"pals", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PMI_LOCAL_SIZE"},
    {"mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
};

const char* valueOf(const Lookup& lookup, const char* name) {
  const char* value = lookup(name);
  return value && *value ? value : nullptr;
}

/// The variable's number, nothing if it is not set, or Code::invalid.
Result<std::optional<int>> numberOf(const Lookup& lookup, const char* name, int least) {
  const char* value = name ? valueOf(lookup, name) : nullptr;
  if (!value) return std::optional<int>();
  const std::string_view digits(value);
  int number = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (problem != std::errc() || end != digits.data() + digits.size() || number < least) {
    return invalid("the variable ", name, " is '", value, "': accepted are whole numbers from ", least, " to ",
                   std::numeric_limits<int>::max());
  }
  return std::optional<int>(number);
}

/// This launcher's placement, or nothing if neither of its two variables is set.
Result<std::optional<Launch>> placedBy(const Names& names, const Lookup& lookup) {
  Result<std::optional<int>> rank = numberOf(lookup, names.rank, 0);
  if (!rank) return rank.error();
  Result<std::optional<int>> size = numberOf(lookup, names.size, 1);
  if (!size) return size.error();
  if (!*rank && !*size) return std::optional<Launch>();
  if (!*rank || !*size) {
    return invalid("the variable ", *rank ? names.rank : names.size, " is set, but ", *rank ? names.size : names.rank,
                   " is not: set both or neither");
  }
  if (**rank >= **size) {
    return invalid("the variable ", names.rank, " is '", **rank, "' and ", names.size, " is '", **size,
                   "': accepted are ranks from 0 to ", **size - 1);
  }
  Result<std::optional<int>> localRank = numberOf(lookup, names.localRank, 0);
  if (!localRank) return localRank.error();
  Result<std::optional<int>> localSize = numberOf(lookup, names.localSize, 1);
  if (!localSize) return localSize.error();
  return std::optional<Launch>(
      Launch{**rank, **size, localRank->value_or(**rank), localSize->value_or(0), names.launcher});
}

/// SLURM sets its size in plain shells of an allocation too; only a step's task has a rank.
Result<std::optional<Launch>> placedBySlurm(const Lookup& lookup) {
  if (!valueOf(lookup, "SLURM_PROCID") || !valueOf(lookup, "SLURM_STEP_ID")) return std::optional<Launch>();
  const char* size = valueOf(lookup, "SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  Result<std::optional<Launch>> placed = placedBy({"slurm", "SLURM_PROCID", size, "SLURM_LOCALID", nullptr}, lookup);
  if (!placed || !*placed) return placed;
  const char* nodes = valueOf(lookup, "SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";
  Result<std::optional<int>> hosts = numberOf(lookup, nodes, 1);
  if (!hosts) return hosts.error();
  if (hosts->value_or(0) == 1) (**placed).localSize = (**placed).size;
  return placed;
}

}  // namespace

Result<Launch> launchFrom(const Lookup& lookup) {
  for (const Names& names : kLaunchers) {
    // PALS shares PMI's size variable: only its own rank variable tells that it is PALS.
    if (std::string_view(names.launcher) == "pals" && !valueOf(lookup, names.rank)) continue;
    Result<std::optional<Launch>> placed = placedBy(names, lookup);
    if (!placed) return placed.error();
    if (*placed) return **placed;
  }
  Result<std::optional<Launch>> placed = placedBySlurm(lookup);
  if (!placed) return placed.error();
  return placed->value_or(Launch{0, 1, 0, 1, "none"});
}

Result<Launch> launchFromEnvironment() {
  return launchFrom([](const char* name) { return std::getenv(name); });
}

}  // namespace symccl
