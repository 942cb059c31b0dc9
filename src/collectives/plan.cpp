#include "collectives/plan.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/checks.hpp"

namespace symccl {

namespace {

constexpr Algorithm kNothing{"nothing", Path::none, [](Round&) { return Status(); }};
constexpr Algorithm kInline{"inline line", Path::inlined, inlineLine};
constexpr Algorithm kEager{"eager one-shot", Path::eager, eagerOneShot};
constexpr Algorithm kTwoShot{"two-shot", Path::zeroCopy, twoShot};
constexpr Algorithm kPull{"pull", Path::zeroCopy, pull};
constexpr Algorithm kPush{"push", Path::zeroCopy, push};
constexpr Algorithm kSplitBroadcast{"split broadcast", Path::zeroCopy, splitBroadcast};
constexpr Algorithm kStagedReduce{"staged reduce", Path::staged, stagedReduce};
constexpr Algorithm kStagedReduceScatter{"staged reduce-scatter", Path::staged, stagedReduceScatter};
constexpr Algorithm kStagedMove{"staged move", Path::staged, stagedMove};

const Algorithm* zeroCopy(Kind kind, bool inputs, bool outputs, bool inPlace) {
  const bool both = inputs && outputs;
  switch (kind) {
    case Kind::allReduce:
    case Kind::reduce:
      return both ? &kTwoShot : nullptr;
    case Kind::reduceScatter:
    case Kind::reduceScatterV:
      return inputs ? &kTwoShot : nullptr;
    case Kind::broadcast:
      return both ? &kSplitBroadcast : inputs ? &kPull : outputs ? &kPush : nullptr;
    case Kind::allGather:
    case Kind::allGatherV:
    case Kind::gather:
    case Kind::gatherV:
      return outputs ? &kPush : inputs ? &kPull : nullptr;
    case Kind::scatter:
    case Kind::scatterV:
      return inputs ? &kPull : outputs ? &kPush : nullptr;
    // In place a delivery would overwrite what has not left yet.
    case Kind::allToAll:
    case Kind::allToAllV:
      return inPlace ? nullptr : inputs ? &kPull : outputs ? &kPush : nullptr;
    case Kind::barrier:
      break;
  }
  return nullptr;
}

const Algorithm* staged(Kind kind) {
  switch (kind) {
    case Kind::allReduce:
    case Kind::reduce:
      return &kStagedReduce;
    case Kind::reduceScatter:
    case Kind::reduceScatterV:
      return &kStagedReduceScatter;
    default:
      return &kStagedMove;
  }
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

Plan plan(std::span<const Call> calls, const PlanRules& rules) {
  const Call& first = calls.front();
  if (first.kind == Kind::barrier) return {&kNothing};
  const auto all = [&](auto holds) { return std::all_of(calls.begin(), calls.end(), holds); };
  if (all([](const Call& call) { return call.form == Form::inlined; })) return {&kInline};
  if (all([](const Call& call) { return call.form == Form::eager; })) return {&kEager};
  const bool inputs = all([](const Call& call) { return call.sendLocated; });
  const bool outputs = all([](const Call& call) { return call.recvLocated; });
  const bool inPlace = !all([](const Call& call) { return !call.inPlace; });
  if (!rules.stagedOnly) {
    if (const Algorithm* algorithm = zeroCopy(first.kind, inputs, outputs, inPlace)) return {algorithm};
  }
  return {staged(first.kind), !inputs, !outputs};
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
