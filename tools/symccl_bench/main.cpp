// symccl-bench: collectives of this host's processes, measured beside their peers and the machine's limits.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "symccl/spawn.hpp"
#include "symccl_bench/binding.hpp"
#include "symccl_bench/compare.hpp"
#include "symccl_bench/failure.hpp"
#include "symccl_bench/measure.hpp"
#include "symccl_bench/options.hpp"
#include "symccl_bench/plot.hpp"
#include "symccl_bench/report.hpp"

namespace symccl::bench {

namespace {

std::size_t countFor(Op op, std::size_t bytes, DataType type, int ranks) {
  if (!traitsOf(op).sized) return 0;
  const std::size_t element = sizeOf(type) * (traitsOf(op).perRank ? static_cast<std::size_t>(ranks) : 1);
  return std::max<std::size_t>(1, bytes / element);
}

// The product of what was asked for, without the dimensions that an operation does not have.
std::vector<Task> tasksOf(const Options& options, int ranks) {
  std::vector<Task> tasks;
  for (Op op : options.ops) {
    const OpTraits& traits = traitsOf(op);
    const bool single = !traits.sized;
    std::vector<int> roots = options.roots;
    if (roots.front() < 0) {
      roots.clear();
      for (int rank = 0; rank < ranks; ++rank) roots.push_back(rank);
    }
    if (!traits.rooted) roots = {0};
    for (DataType type : single ? std::vector<DataType>{DataType::int8} : options.types) {
      for (ReduceOp reduction : traits.reduces ? options.reductions : std::vector<ReduceOp>{ReduceOp::sum}) {
        if (traits.reduces && !reducible(type, reduction)) continue;
        for (int root : roots) {
          for (std::size_t bytes : single ? std::vector<std::size_t>{0} : options.sizes) {
            tasks.push_back({op, type, reduction, root, countFor(op, bytes, type, ranks), ranks, options.inPlace});
          }
        }
      }
    }
  }
  return tasks;
}

// What is wrong with the options for so many ranks; empty: nothing. `launcher`: who started them; empty: we shall.
std::string problemWith(const Options& options, int ranks, const std::string& launcher) {
  const std::string size = std::to_string(ranks);
  if (!launcher.empty() && options.ranks > 0 && options.ranks != ranks) {
    return "--ranks " + std::to_string(options.ranks) + ", but " + launcher + " has started " + size;
  }
  if (options.roots.front() >= ranks) {
    return "-r " + std::to_string(options.roots.front()) + ": there are only " + size + " ranks";
  }
  if (options.sweepAlgorithms && ranks < 2) return "--sweep-algorithms needs 2 ranks: one alone has no algorithms";
  const std::vector<Task> tasks = tasksOf(options, ranks);
  if (tasks.empty()) return "no such reduction of that type: -o with -d leaves nothing to measure";
  for (const Task& task : tasks) {
    if (options.inPlace && !traitsOf(task.op).inPlace) {
      return std::string(traitsOf(task.op).name) + " has no --in-place form";
    }
  }
  return {};
}

// Whether runRanks() of a symccl-bench started this rank.
bool startedHere() {
  const char* root = std::getenv("SYMCCL_ROOT");
  return root != nullptr && std::string(root).starts_with("unix:@symccl-ranks-");
}

/// Where rows go: standard output in --format, and the files.
class Outputs {
 public:
  explicit Outputs(const Options& options) {
    const bool toFileOnly = options.jsonFile == "-" || options.csvFile == "-" || options.plotFile == "-";
    const bool sweepTable = options.sweepAlgorithms && options.format == "table";
    if (!toFileOnly) reporters_.push_back(makeReporter(sweepTable ? "sweep" : options.format, stdout));
    addFile("json", options.jsonFile);
    addFile("csv", options.csvFile);
    addFile("svg", options.plotFile);
  }
  ~Outputs() {
    for (std::FILE* file : files_) std::fclose(file);
  }
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;

  void begin(const Run& run) {
    for (auto& reporter : reporters_) reporter->begin(run);
  }
  void row(const Row& row, const Row* inPlace) {
    for (auto& reporter : reporters_) reporter->row(row, inPlace);
  }
  void end() {
    for (auto& reporter : reporters_) reporter->end();
    std::fflush(stdout);
  }

 private:
  void addFile(const char* format, const std::string& name) {
    if (name.empty()) return;
    std::FILE* out = stdout;
    if (name != "-") {
      out = std::fopen(name.c_str(), "w");
      if (out == nullptr) throw Failure("cannot write " + name);
      files_.push_back(out);
    }
    reporters_.push_back(makeReporter(format, out));
  }
  std::vector<std::unique_ptr<Reporter>> reporters_;
  std::vector<std::FILE*> files_;
};

void progress(std::size_t done, std::size_t all, const Task& task) {
  if (::isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r\033[K[%zu/%zu] %s %zu B", done, all, traitsOf(task.op).name, task.bytes());
  if (done == all) std::fprintf(stderr, "\r\033[K");
}

// Wrong data of a peer counts too: its times would mean nothing.
bool allRight(const Row& row) {
  return std::all_of(row.libraries.begin(), row.libraries.end(), [](const Measured& m) { return m.wrong == 0; });
}

int runRank(Options options) {
  const Launch launch = orFail(launchFromEnvironment());
  options.bound = options.bind && startedHere() && bindRank(launch.rank, launch.size);
  const std::vector<Task> tasks = tasksOf(options, launch.size);
  std::size_t mostBytes = 0;
  for (const Task& task : tasks) mostBytes = std::max(mostBytes, task.bytes());

  const std::shared_ptr<Store> store = orFail(storeFromEnvironment(launch, std::chrono::minutes(1)));
  const auto began = std::chrono::steady_clock::now();
  std::shared_ptr<Communicator> world = orFail(Communicator::create(*store, launch.rank, launch.size));
  const std::chrono::duration<double, std::micro> creation = std::chrono::steady_clock::now() - began;
  const bool staged = std::find(options.peers.begin(), options.peers.end(), "shm-staged") != options.peers.end();
  Area area(*store, launch.rank, launch.size, staged ? stagedSlotBytes(mostBytes) : 0);
  const double firstUs = area.largest({creation.count()}).front();
  Bench bench(area, *store, options, std::move(world), mostBytes);

  std::unique_ptr<Outputs> outputs;
  if (launch.rank == 0) outputs = std::make_unique<Outputs>(options);
  if (outputs) outputs->begin({launch.size, startedHere() ? "symccl-bench" : launch.launcher, &options, firstUs});
  bool right = true;
  std::string reason;  // why a row has no times
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (outputs) progress(i, tasks.size(), tasks[i]);
    const Row row = bench.run(tasks[i]);
    Row inPlace;
    const bool both = options.format == "nccl" && !tasks[i].inPlace && traitsOf(tasks[i].op).inPlace;
    if (both) {
      Task task = tasks[i];
      task.inPlace = true;
      inPlace = bench.run(task);
    }
    right = right && allRight(row) && (!both || allRight(inPlace));
    if (!row.libraries.front().absent.empty()) reason = row.libraries.front().absent;
    if (outputs) outputs->row(row, both ? &inPlace : nullptr);
  }
  if (outputs) {
    progress(tasks.size(), tasks.size(), tasks.back());
    outputs->end();
    if (!right) std::fprintf(stderr, "symccl-bench: wrong data\n");
    if (!reason.empty()) std::fprintf(stderr, "symccl-bench: rows without times: %s\n", reason.c_str());
  }
  area.barrier(Waiting::patient);  // the first rank that fails takes the others with it
  return !right ? kWrongData : !reason.empty() ? kFailed : 0;
}

int start(const Options& options, char** argv) {
  const Launch launch = orFail(launchFromEnvironment());
  const bool launched = launch.launcher != "none";
  const int ranks = launched ? launch.size : options.ranks > 0 ? options.ranks : 2;
  const std::string problem = problemWith(options, ranks, launched ? launch.launcher : "");
  if (!problem.empty()) {
    std::fprintf(stderr, "symccl-bench: %s\n", problem.c_str());
    return kWrongUsage;
  }
  return launched ? runRank(options) : orFail(runRanks(ranks, argv));
}

}  // namespace

}  // namespace symccl::bench

int main(int argc, char** argv) {
  const symccl::bench::Parsed parsed = symccl::bench::parseOptions(argc, argv);
  if (!parsed.run) return parsed.code;
  try {
    const symccl::bench::Options& options = parsed.options;
    if (!options.compareBefore.empty()) return symccl::bench::compare(options.compareBefore, options.compareAfter);
    if (!options.plotRows.empty()) return symccl::bench::plot(options.plotRows, options.plotFile);
    return symccl::bench::start(parsed.options, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "symccl-bench: %s\n", error.what());
    return symccl::bench::kFailed;
  }
}
