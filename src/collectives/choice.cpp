#include "collectives/choice.hpp"

#include <algorithm>
#include <vector>

#include "base/checks.hpp"

namespace symccl {

namespace {

struct KnownAlgorithm {
  std::string_view name;
  Named named;
};
// HCCL's own first. Those that only pay between hosts, or on its hardware, mean an automatic choice here.
constexpr KnownAlgorithm kAlgorithmNames[] = {
    {"NA", Named::automatic},       {"null", Named::automatic},
    {"ring", Named::ring},          {"H-D_R", Named::halvingDoubling},
    {"pairwise", Named::pairwise},  {"fullmesh", Named::automatic},
    {"pipeline", Named::automatic}, {"NHR", Named::automatic},
    {"NHR_V1", Named::automatic},   {"NB", Named::automatic},
    {"AHC", Named::automatic},      {"AHC_BROKE", Named::automatic},
    {"tree", Named::tree},          {"double-tree", Named::doubleTree},
    {"inline", Named::inlined},     {"eager", Named::eager},
    {"one-shot", Named::oneShot},   {"two-shot", Named::twoShot},
    {"split", Named::split},        {"push", Named::push},
    {"pull", Named::pull},          {"staged", Named::staged},
};

struct KnownOperation {
  std::string_view name;
  Kind kind, v;  // barrier: none
};
constexpr KnownOperation kOperationNames[] = {
    {"allreduce", Kind::allReduce, Kind::barrier},
    {"reduce", Kind::reduce, Kind::barrier},
    {"broadcast", Kind::broadcast, Kind::barrier},
    {"allgather", Kind::allGather, Kind::allGatherV},
    {"reducescatter", Kind::reduceScatter, Kind::reduceScatterV},
    {"alltoall", Kind::allToAll, Kind::allToAllV},
    {"gather", Kind::gather, Kind::gatherV},
    {"scatter", Kind::scatter, Kind::scatterV},
    {"send", Kind::barrier, Kind::barrier},
    {"receive", Kind::barrier, Kind::barrier},
    {"sendrecv", Kind::barrier, Kind::barrier},
};

template <class Known>
std::string namesOf(const Known& known) {
  std::string all;
  for (const auto& each : known) all += (all.empty() ? "" : ", ") + std::string(each.name);
  return all;
}

template <class Known>
auto find(const Known& known, std::string_view name) -> const std::remove_extent_t<Known>* {
  for (const auto& each : known) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

// Empty pieces included.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

constexpr std::string_view kLevel = "level";
constexpr int kLevels = 4;

// The algorithm of level 0.
Result<Named> parseLevels(std::string_view text) {
  Named result = Named::automatic;
  std::array<bool, kLevels> seen{};
  for (std::string_view piece : split(text, ';')) {
    std::size_t level = 0;
    if (const std::size_t colon = piece.find(':'); colon != std::string_view::npos) {
      const std::string_view name = piece.substr(0, colon);
      if (!name.starts_with(kLevel) || name.size() != kLevel.size() + 1 || name.back() < '0' ||
          name.back() >= '0' + kLevels)
        return invalid("unknown level '", name, "'; accepted: level0 to level", kLevels - 1);
      level = static_cast<std::size_t>(name.back() - '0');
      piece.remove_prefix(colon + 1);
    }
    if (seen[level]) return invalid("level", level, " is given twice in '", text, "'");
    seen[level] = true;
    const KnownAlgorithm* known = find(kAlgorithmNames, piece);
    if (known == nullptr) return invalid("unknown algorithm '", piece, "'; accepted: ", Choice::names());
    if (level == 0) result = known->named;
  }
  return result;
}

}  // namespace

std::string Choice::names() { return namesOf(kAlgorithmNames); }

Result<Choice> Choice::parse(std::string_view text) {
  Choice choice;
  if (text.empty()) return choice;
  if (text.find('=') == std::string_view::npos) {
    Result<Named> named = parseLevels(text);
    if (!named) return named.error();
    choice.named_.fill(*named);
    return choice;
  }
  std::vector<std::string_view> seen;
  for (std::string_view piece : split(text, '/')) {
    const std::size_t equals = piece.find('=');
    const std::string_view name = piece.substr(0, equals);
    const KnownOperation* operation = find(kOperationNames, name);
    if (equals == std::string_view::npos || operation == nullptr) {
      return invalid("'", piece, "' is not operation=algorithm; accepted operations: ", namesOf(kOperationNames));
    }
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      return invalid("operation '", name, "' is given twice");
    seen.push_back(name);
    Result<Named> named = parseLevels(piece.substr(equals + 1));
    if (!named) return named.error();
    choice.set(operation->kind, *named);
    choice.set(operation->v, *named);
  }
  return choice;
}

}  // namespace symccl
