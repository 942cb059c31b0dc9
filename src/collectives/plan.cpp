#include "collectives/plan.hpp"

#include <algorithm>
#include <string>

#include "base/checks.hpp"
#include "collectives/catalog.hpp"

namespace symccl {

namespace {

constexpr Algorithm kNothing{"nothing", Path::none, [](Round&) { return Status(); }};

const Algorithm* find(const Situation& situation, Named named) {
  for (const Algorithm& algorithm : catalog()) {
    if (algorithm.named == named && algorithm.runs(situation)) return &algorithm;
  }
  return nullptr;
}

const Algorithm* asked(const Situation& situation, const PlanRules& rules) {
  const Named named = rules.choice.at(situation.kind);
  if (named != Named::automatic) return find(situation, named);
  if (rules.treeThreshold && situation.bytes <= *rules.treeThreshold) return find(situation, Named::tree);
  if (rules.ringThreshold && situation.bytes >= *rules.ringThreshold) return find(situation, Named::ring);
  return nullptr;
}

std::uint64_t cost(const Algorithm& algorithm, const Situation& situation, const CostModel& costs) {
  return costs.picoseconds(algorithm.work(situation), situation.bytes, situation.size, situation.cpus);
}

bool overlaps(const Call& call, std::uint64_t bytes) {
  if (call.inPlace) return true;
  if (call.send == kPrivate || call.recv == kPrivate) return false;
  return call.send < call.recv + bytes && call.recv < call.send + bytes;
}

Situation describe(std::span<const Call> calls, const PlanRules& rules) {
  const Call& first = calls.front();
  Situation s{first.kind, static_cast<int>(calls.size()), rules.cpus};
  s.inputs = s.outputs = true;
  s.stagedOnly = rules.stagedOnly;
  const std::uint64_t element = isV(first.kind) ? 1 : sizeOf(first.type);
  Form largest = Form::inlined;
  for (const Call& call : calls) {
    s.bytes = std::max(s.bytes, call.count * element);
    s.inputs = s.inputs && call.sendLocated;
    s.outputs = s.outputs && call.recvLocated;
    s.overlap = s.overlap || overlaps(call, call.count * element);
    largest = std::max(largest, call.form);
  }
  s.form = largest;
  return s;
}

}  // namespace

const char* nameOf(Path path) {
  switch (path) {
    case Path::none:
      return "none";
    case Path::inlined:
      return "inline";
    case Path::eager:
      return "eager";
    case Path::zeroCopy:
      return "zero-copy";
    case Path::staged:
      return "staged";
  }
  return "unknown";
}

const Algorithm& choose(const Situation& situation, const PlanRules& rules) {
  if (situation.kind == Kind::barrier) return kNothing;
  if (const Algorithm* algorithm = asked(situation, rules)) return *algorithm;
  if (situation.form == Form::inlined) return *find(situation, Named::inlined);
  if (situation.form == Form::eager) return *find(situation, Named::eager);
  const Algorithm* best = nullptr;
  std::uint64_t least = 0;
  for (const Algorithm& algorithm : catalog()) {
    if (!algorithm.rankOrder || !algorithm.runs(situation)) continue;
    // Registered on all ranks means zero-copy, however a disturbed probe may have measured; those come first.
    if (algorithm.path == Path::staged && best != nullptr && situation.inputs && situation.outputs) continue;
    const std::uint64_t time = cost(algorithm, situation, rules.costs);
    if (best != nullptr && time >= least) continue;
    best = &algorithm;
    least = time;
  }
  return *best;  // staging serves every kind
}

std::vector<Estimate> estimates(const Situation& situation, const PlanRules& rules) {
  std::vector<Estimate> all;
  for (const Algorithm& algorithm : catalog()) {
    if (algorithm.serves(situation.kind))
      all.push_back({&algorithm, algorithm.runs(situation), cost(algorithm, situation, rules.costs)});
  }
  return all;
}

Plan plan(std::span<const Call> calls, const PlanRules& rules) {
  const Situation situation = describe(calls, rules);
  const Algorithm& algorithm = choose(situation, rules);
  const bool buffers = algorithm.path == Path::staged && situation.form == Form::buffers;
  return {&algorithm, buffers && !situation.inputs, buffers && !situation.outputs};
}

Status sameCall(std::span<const Call> calls) {
  const Call& first = calls.front();
  if (std::all_of(calls.begin(), calls.end(), [&](const Call& call) { return call.sameAs(first); })) return {};
  std::vector<std::pair<std::string, std::string>> groups;  // what was called, by which ranks
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    const std::string what = calls[rank].describe();
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& entry) { return entry.first == what; });
    if (group == groups.end()) group = groups.insert(groups.end(), {what, ""});
    group->second += text(group->second.empty() ? "" : ", ", rank);
  }
  std::string message = "the ranks called different operations:";
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const bool several = groups[i].second.find(',') != std::string::npos;
    message += text(i == 0 ? " " : "; ", several ? "ranks " : "rank ", groups[i].second, ": ", groups[i].first);
  }
  return Error(Code::mismatch, message);
}

}  // namespace symccl
