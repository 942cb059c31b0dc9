#include "symccl_info/plan_page.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "base/checks.hpp"
#include "base/environment.hpp"
#include "base/host.hpp"
#include "collectives/plan.hpp"
#include "collectives/probe.hpp"
#include "protocol/control_area.hpp"

namespace symccl::info {
namespace {

Result<Kind> kindOf(const std::string& name) {
  std::string known;
  for (int kind = static_cast<int>(Kind::broadcast); kind <= static_cast<int>(Kind::scatter); ++kind) {
    const std::string each = nameOf(static_cast<Kind>(kind));
    if (each == name) return static_cast<Kind>(kind);
    known += (known.empty() ? "" : ", ") + each;
  }
  return invalid("unknown operation '", name, "'; accepted: ", known);
}

Result<DataType> typeOf(const std::string& name) {
  std::string known;
  for (int type = 0; type < kDataTypes; ++type) {
    const std::string each = nameOf(static_cast<DataType>(type));
    if (each == name) return static_cast<DataType>(type);
    known += (known.empty() ? "" : ", ") + each;
  }
  return invalid("unknown type '", name, "'; accepted: ", known);
}

std::string microseconds(std::uint64_t picoseconds) {
  char out[32];
  std::snprintf(out, sizeof out, "%.2f us", static_cast<double>(picoseconds) / 1e6);
  return out;
}

std::string row(const std::string& name, const std::string& path, const std::string& time, const std::string& note) {
  char out[256];
  std::snprintf(out, sizeof out, "  %-22s %-10s %14s  %s\n", name.c_str(), path.c_str(), time.c_str(), note.c_str());
  return out;
}

std::string costsText(const CostModel& costs) {
  char out[256];
  std::snprintf(out, sizeof out, "%s: hand-off %.0f ns; GB/s at 64 KiB, 512 KiB, 2 MiB:\n",
                costs.measured ? "measured" : "assumed, for the probe found the CPUs busy",
                static_cast<double>(costs.handoff) / 1e3);
  std::string all = out;
  const auto line = [&](const char* name, std::uint64_t CostModel::Rates::* rate) {
    std::snprintf(
        out, sizeof out, "  %-22s %8.1f %8.1f %8.1f\n", name, 1024e3 / static_cast<double>(costs.rates[0].*rate),
        1024e3 / static_cast<double>(costs.rates[1].*rate), 1024e3 / static_cast<double>(costs.rates[2].*rate));
    all += out;
  };
  line("copy", &CostModel::Rates::copied);
  line("to a peer", &CostModel::Rates::pushed);
  line("from a peer", &CostModel::Rates::pulled);
  line("another source", &CostModel::Rates::read);
  line("another peer's source", &CostModel::Rates::readPeer);
  return all;
}

const char* note(const Estimate& estimate, const Algorithm& chosen) {
  if (estimate.algorithm == &chosen) return "chosen";
  if (!estimate.possible) return "not possible here";
  return estimate.algorithm->rankOrder ? "" : "only if asked for";
}

}  // namespace

Result<std::string> planPage(const PlanQuestion& question) {
  const Result<Kind> kind = kindOf(question.operation);
  if (!kind) return kind.error();
  const Result<DataType> type = typeOf(question.type);
  if (!type) return type.error();
  const std::optional<std::size_t> bytes = sizeFromText(question.bytes);
  if (!bytes)
    return invalid("'", question.bytes, "' is not a size; accepted: a number of bytes, or one with K, M, G or T");
  const bool registered = question.path == "registered";
  if (!registered && question.path != "private")
    return invalid("unknown path '", question.path, "'; accepted: registered, private");
  if (question.ranks < 2 || question.ranks > kMostMembers)
    return invalid(question.ranks, " ranks are asked for; accepted: 2 to ", kMostMembers);

  const Environment& said = environment();
  PlanRules rules;
  const Result<Choice> choice = Choice::parse(said.algorithm);
  if (!choice) return choice.error().in("the variable HCCL_ALGO");
  rules.choice = *choice;
  rules.ringThreshold = said.ringThreshold;
  rules.treeThreshold = said.treeThreshold;
  rules.costs = measuredCosts();
  const std::size_t count = *bytes / sizeOf(*type);
  Situation situation{.kind = *kind, .size = question.ranks, .cpus = availableCpus(), .bytes = count * sizeOf(*type)};
  situation.form = formFor(offeredBytes(*kind, situation.bytes, question.ranks), ReduceOp::sum, *kind);
  situation.inputs = situation.outputs = registered && situation.form == Form::buffers;
  situation.stagedOnly = said.path == "staged";

  const Algorithm& chosen = choose(situation, rules);
  std::vector<Estimate> all = estimates(situation, rules);
  std::stable_sort(all.begin(), all.end(),
                   [](const Estimate& a, const Estimate& b) { return a.picoseconds < b.picoseconds; });
  std::string page =
      text(nameOf(*kind), " ", nameOf(*type), " x ", count, " (", bytesText(situation.bytes), "), ", question.ranks,
           " ranks on ", situation.cpus, situation.cpus == 1 ? " CPU, " : " CPUs, ", question.path, " buffers\n");
  page += row("algorithm", "path", "predicted", "");
  for (const Estimate& each : all)
    page += row(each.algorithm->name, nameOf(each.algorithm->path), microseconds(each.picoseconds), note(each, chosen));
  return page + costsText(rules.costs);
}

}  // namespace symccl::info
