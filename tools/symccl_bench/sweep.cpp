#include "symccl_bench/sweep.hpp"

#include <sched.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "base/environment.hpp"
#include "base/host.hpp"
#include "collectives/catalog.hpp"
#include "collectives/choice.hpp"
#include "collectives/plan.hpp"
#include "collectives/probe.hpp"
#include "symccl_bench/failure.hpp"
#include "symccl_bench/measure.hpp"

namespace symccl::bench {

namespace {

constexpr double kAsFast = 1.1;

// As a communicator counts them when it is made: all that some rank may use, if no quota is lower.
int sharedCpus(Area& area) {
  cpu_set_t own;
  CPU_ZERO(&own);
  (void)::sched_getaffinity(0, sizeof own, &own);
  std::vector<double> mine(CPU_SETSIZE);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) mine[static_cast<std::size_t>(cpu)] = CPU_ISSET(cpu, &own) ? 1 : 0;
  const bool limited = availableCpus() < CPU_COUNT(&own);
  mine.push_back(limited ? CPU_SETSIZE - availableCpus() : 0);
  const std::vector<double> all = area.largest(mine);
  const auto together = std::count(all.begin(), all.end() - 1, 1.0);
  return std::max(1, std::min(static_cast<int>(together), CPU_SETSIZE - static_cast<int>(all.back())));
}

// The name with which users ask for it; empty where they cannot.
std::string wordFor(Named named) {
  std::istringstream names(Choice::names());
  for (std::string name; std::getline(names >> std::ws, name, ',');) {
    const Result<Choice> choice = Choice::parse(name);
    if (choice && choice->at(Kind::allReduce) == named) return name;
  }
  return {};
}

const Algorithm* named(Named named, const Situation& situation) {
  for (const Algorithm& algorithm : catalog()) {
    if (algorithm.named == named && algorithm.runs(situation)) return &algorithm;
  }
  return nullptr;
}

// Small operations have one form each, and what can be zero-copy on all sides is never staged.
bool takenBySelf(const Algorithm& algorithm, const Situation& situation) {
  if (situation.form != Form::buffers)
    return algorithm.named == (situation.form == Form::inlined ? Named::inlined : Named::eager);
  if (!algorithm.rankOrder) return false;
  if (algorithm.path != Path::staged || !situation.inputs || !situation.outputs) return true;
  return std::none_of(catalog().begin(), catalog().end(),
                      [&](const Algorithm& other) { return other.path == Path::zeroCopy && other.runs(situation); });
}

}  // namespace

std::optional<Kind> kindOf(Op op) {
  for (int kind = static_cast<int>(Kind::broadcast); kind <= static_cast<int>(Kind::scatterV); ++kind) {
    if (nameOf(static_cast<Kind>(kind)) == std::string(traitsOf(op).name)) return static_cast<Kind>(kind);
  }
  return std::nullopt;
}

class Sweep::ForcedEngine : public Engine {
 public:
  ForcedEngine(const Sweep& sweep, Named algorithm, std::unique_ptr<Engine> engine, std::shared_ptr<Engine> automatic)
      : sweep_(sweep), named_(algorithm), engine_(std::move(engine)), automatic_(std::move(automatic)) {}

  bool supports(const Task& task) const override {
    const Algorithm* algorithm = named(named_, sweep_.situationOf(task));
    return algorithm != nullptr && automatic_->algorithm() != algorithm->name;
  }
  void prepare(const Task& task, const void* send, void* recv) override { engine_->prepare(task, send, recv); }
  void run() override { engine_->run(); }
  std::string path() const override { return engine_->path(); }
  std::string algorithm() const override { return engine_->algorithm(); }

 private:
  const Sweep& sweep_;
  const Named named_;
  const std::unique_ptr<Engine> engine_;
  const std::shared_ptr<Engine> automatic_;
};

Sweep::Sweep(Area& area, bool registered) : registered_(registered), cpus_(sharedCpus(area)) {}

std::vector<Sweep::Forced> Sweep::forced(const std::vector<Op>& ops, Communicator& world, Store& store,
                                         const std::shared_ptr<Engine>& automatic) const {
  std::set<Named> wanted;
  for (const Algorithm& algorithm : catalog()) {
    // These two follow from the size.
    if (algorithm.named == Named::inlined || algorithm.named == Named::eager) continue;
    if (std::any_of(ops.begin(), ops.end(), [&](Op op) { return kindOf(op) && algorithm.serves(*kindOf(op)); }))
      wanted.insert(algorithm.named);
  }
  std::vector<Forced> all;
  for (const Named each : wanted) {
    const std::string word = wordFor(each);
    if (word.empty()) continue;
    std::shared_ptr<Communicator> communicator =
        orFail(world.split(0, world.rank(), {.name = "symccl-bench " + word, .algorithm = word}));
    auto engine = std::make_shared<ForcedEngine>(*this, each, makeSymcclEngine(communicator, store), automatic);
    all.push_back({word, std::move(engine), std::move(communicator)});
  }
  return all;
}

// What the library makes of the calls of all ranks.
Situation Sweep::situationOf(const Task& task) const {
  const Kind kind = *kindOf(task.op);
  const std::uint64_t element = task.elementBytes();
  Situation situation{.kind = kind, .size = task.ranks, .cpus = cpus_, .bytes = task.count * element};
  std::uint64_t offered = offeredBytes(kind, situation.bytes, task.ranks);
  if (isV(kind)) {
    situation.bytes = offered = 0;
    for (int from = 0; from < task.ranks; ++from) {
      offered = std::max<std::uint64_t>(offered, task.sendElements(from) * element);
      for (int to = 0; to < task.ranks; ++to) {
        if (to == from) continue;
        situation.bytes = std::max<std::uint64_t>(situation.bytes, task.blockElements(from, to) * element);
      }
    }
  }
  situation.form = formFor(offered, task.reduction, kind);
  situation.inputs = situation.outputs = registered_ && (situation.form == Form::buffers || isV(kind));
  situation.overlap = task.inPlace;
  situation.stagedOnly = environment().path == "staged";
  return situation;
}

void Sweep::judge(Row& row) const {
  const Situation situation = situationOf(row.task);
  PlanRules rules;
  rules.costs = measuredCosts();  // of this process, and on rank 0 those of all its communicators
  const std::vector<Estimate> all = estimates(situation, rules);
  Measured* best = nullptr;
  for (Measured& library : row.libraries) {
    if (!library.absent.empty()) continue;
    const auto ran = std::find_if(all.begin(), all.end(), [&](const Estimate& estimate) {
      return estimate.algorithm->name == library.algorithm;
    });
    const bool forced = &library != &row.libraries.front();
    if (ran == all.end() || (forced && wordFor(ran->algorithm->named) != library.name))
      throw Failure("'" + library.name + "' was asked for, '" + library.algorithm + "' ran");
    library.swept = {static_cast<double>(ran->picoseconds) / 1e6, takenBySelf(*ran->algorithm, situation), false};
    if (!library.swept.bySelf) continue;
    if (best == nullptr || library.ratio.median < best->ratio.median) best = &library;
  }
  if (best != nullptr) best->swept.best = true;
}

double overPrediction(const Measured& measured) {
  return measured.swept.predictedUs > 0 ? measured.timeUs.median / measured.swept.predictedUs : 0;
}

void SweepVerdict::add(const Row& row) {
  int choices = 0;
  double best = 1;  // the chosen one's
  for (const Measured& library : row.libraries) {
    if (!library.absent.empty() || !library.swept.bySelf) continue;
    ++choices;
    best = std::min(best, library.ratio.median);
  }
  if (choices < 2) return;
  ++rows_;
  if (best * kAsFast >= 1) ++within_;
}

std::string SweepVerdict::text() const {
  if (rows_ == 0) return "the library had no choice at any point";
  return "chosen within 10 % of the best at " + std::to_string(within_) + " of " + std::to_string(rows_) + " points";
}

}  // namespace symccl::bench
