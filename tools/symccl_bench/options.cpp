#include "symccl_bench/options.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>

#include <CLI/CLI.hpp>

#include "base/environment.hpp"
#include "base/version.hpp"
#include "kernels/kernels.hpp"
#include "symccl_bench/area.hpp"
#include "symccl_bench/byte_size.hpp"
#include "symccl_bench/failure.hpp"
#include "symccl_bench/peers.hpp"
#include "symccl_bench/sweep.hpp"

namespace symccl::bench {

namespace {

/// The command line as it was typed.
struct Words {
  std::vector<std::string> what;
  std::string begin = "8", end = "64M", step, operation = "sum", type = "float32", root = "0", peers;
  double factor = 4;
  bool version = false;
};

template <class T>
std::string namesOf(const std::vector<T>& all) {
  std::string names;
  for (const T& one : all) names += std::string(names.empty() ? "" : " ") + nameOf(one);
  return names;
}
std::string operationNames() {
  std::string names;
  for (const OpTraits& traits : operations()) {
    if (!isTraining(traits.op)) names += std::string(names.empty() ? "" : " ") + traits.name;
  }
  return names;
}
std::string peerNames() {
  std::string names;
  for (const std::string& name : knownPeers()) names += (names.empty() ? "" : ",") + name;
  return names;
}

template <class T>
std::vector<T> chosen(const std::string& word, const char* option, const std::vector<T>& all) {
  if (word == "all") return all;
  T value{};
  if (!parse(word, value)) {
    throw Failure(std::string(option) + " " + word + " is not known; accepted: all " + namesOf(all));
  }
  return {value};
}

std::size_t bytesOf(const std::string& word, const char* option) {
  const std::optional<std::size_t> bytes = parseBytes(word);
  if (!bytes) throw Failure(std::string(option) + " " + word + " is not a size; accepted: 8, 64K, 1.5M, 2G");
  return *bytes;
}

std::vector<std::size_t> sizesOf(const Words& words, bool hasFactor) {
  const std::size_t begin = bytesOf(words.begin, "-b"), end = bytesOf(words.end, "-e");
  if (begin == 0) throw Failure("-b must be at least 1 byte");
  if (begin > end) throw Failure("-b " + words.begin + " is larger than -e " + words.end);
  if (!words.step.empty() && hasFactor) throw Failure("-i and -f exclude each other");
  if (!(words.factor > 1)) throw Failure("-f must be greater than 1");
  const std::size_t step = words.step.empty() ? 0 : bytesOf(words.step, "-i");
  if (!words.step.empty() && step == 0) throw Failure("-i must be at least 1 byte");
  std::vector<std::size_t> sizes;
  for (std::size_t size = begin; size <= end;) {
    sizes.push_back(size);
    if (sizes.size() > 10'000) throw Failure("-i asks for more than 10000 sizes");
    const auto multiplied = static_cast<std::size_t>(static_cast<double>(size) * words.factor);
    size = step > 0 ? size + step : std::max(size + 1, multiplied);
  }
  return sizes;
}

std::vector<Op> opsOf(std::vector<std::string> words, bool& torch) {
  const bool training = !words.empty() && words.front() == "ddp";
  torch = training || (!words.empty() && words.front() == "torch");
  if (torch) words.erase(words.begin());
  if (words.empty()) words = {training ? "all" : "all_reduce"};
  std::vector<Op> ops;
  for (const std::string& word : words) {
    Op op{};
    if (word == "all") {
      for (const OpTraits& traits : operations()) {
        if (isTraining(traits.op) == training) ops.push_back(traits.op);
      }
    } else if (parse(training ? "ddp_" + word : word, op) && isTraining(op) == training) {
      ops.push_back(op);
    } else if (training) {
      throw Failure("the model " + word + " is not known; accepted: all transformer convolution");
    } else {
      throw Failure("the operation " + word + " is not known; accepted: all " + operationNames());
    }
  }
  return ops;
}

std::vector<int> rootsOf(const std::string& word) {
  if (word == "all") return {-1};
  char* end = nullptr;
  const long root = std::strtol(word.c_str(), &end, 10);
  if (word.empty() || *end != '\0' || root < 0 || root > 1'000'000) {
    throw Failure("-r " + word + " is not a rank; accepted: all or a number from 0");
  }
  return {static_cast<int>(root)};
}

std::vector<std::string> peersOf(const std::string& list) {
  std::vector<std::string> peers;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    const std::string name = list.substr(at, comma - at);
    const std::vector<std::string>& known = knownPeers();
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw Failure("the peer " + name + " is not known; accepted: " + peerNames());
    }
    if (std::find(peers.begin(), peers.end(), name) == peers.end()) peers.push_back(name);
    at = comma + 1;
  }
  return peers;
}

void addOptions(CLI::App& app, Words& words, Options& options) {
  app.add_option("what", words.what,
                 "[torch] and operations: all " + operationNames() +
                     "; or: ddp [transformer] [convolution]; or: compare OLD NEW; or: plot FILE OUT");
  app.add_option("-p,--ranks", options.ranks, "Ranks to start; without: the launcher's, else 2")
      ->check(CLI::Range(1, 128));
  app.add_option("-b,--begin", words.begin, "Smallest size of the whole array [8]");
  app.add_option("-e,--end", words.end, "Largest size [64M]");
  app.add_option("-i,--step", words.step, "Bytes from one size to the next");
  app.add_option("-f,--factor", words.factor, "Factor from one size to the next [4]");
  app.add_option("-d,--type", words.type, "Element type: all " + namesOf(types()));
  app.add_option("-o,--op", words.operation, "Reduction: all " + namesOf(reductions()));
  app.add_option("-r,--root", words.root, "Root: all or a rank [0]");
  app.add_option("-n,--iters", options.iterations, "Timed iterations of a row [20]")
      ->check(CLI::Range(1, static_cast<int>(Area::kMostIterations)));
  app.add_option("-w,--warmup", options.warmup, "Untimed iterations before them [5]")->check(CLI::Range(0, 100'000));
  app.add_option("-c,--check", options.check, "0: do not check the data [1]");
  app.add_option("-R,--register", options.registration, "0: private buffers; 1, 2: registered (symmetric) [2]")
      ->check(CLI::Range(0, 2));
  app.add_flag("--in-place", options.inPlace, "Output over the input, where the operation allows it");
  app.add_flag("--reuse-buffers", options.reuseBuffers, "Touch no buffer between iterations: the flattering case");
  app.add_flag("--async", options.async,
               "torch: time until the call returns, until its end, and what of it is exposed");
  app.add_option("--peers", words.peers, "Interleave with " + peerNames());
  app.add_flag("--sweep-algorithms", options.sweepAlgorithms,
               "Measure every algorithm that can run, beside what the cost model predicts and what is chosen; below "
               "4 KiB the size decides on one form, which stands beside those that can only be asked for");
  app.add_option("--rounds", options.rounds, "Turns that each library takes, with peers or algorithms [5]")
      ->check(CLI::Range(1, 1000));
  app.add_option("--bind", options.bind, "0: let the ranks that we start move between CPUs [1]");
  app.add_option("--python", options.python, "Interpreter that has torch, for gloo, torch and ddp");
  app.add_option("--format", options.format, "table nccl hccl json csv [table]")
      ->check(CLI::IsMember({"table", "nccl", "hccl", "json", "csv"}));
  app.add_option("--json", options.jsonFile, "Write JSON there too ('-': standard output)");
  app.add_option("--csv", options.csvFile, "Write CSV there too ('-': standard output)");
  app.add_option("--plot", options.plotFile, "Draw time over size as SVG there too ('-': standard output)");
  app.add_flag("--version", words.version, "Show version, revision, compiler, kernels");
  app.add_option("--inject-fault", options.faultRank)->group("");
}

constexpr const char* kFooter =
    "Sizes may end in K, M, G. Exit code: 0; 1 wrong data, or (compare) slower rows; 2 wrong usage; 3 anything "
    "else.\n\n"
    "Examples:\n"
    "  symccl-bench all_reduce --ranks 2 -b 8 -e 64M -f 4 -n 100 --peers gloo,openmpi,mpich,shm-staged --plot out.svg\n"
    "  symccl-bench torch all_reduce --async -b 1M -e 64M --peers gloo --format json > rows.json\n"
    "  mpirun -n 2 symccl-bench all -d all -o all -b 1K -e 1M";

bool has(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Peers and switches that only mean something together with others.
void checkTogether(const Options& options, bool training) {
  if (has(options.peers, "private") && options.registration == 0) {
    throw Failure("the peer private is what registered buffers are compared with: not with -R 0");
  }
  if (has(options.peers, "out-of-place") && (!options.inPlace || options.torch)) {
    throw Failure("the peer out-of-place is what --in-place is compared with: not without it, and not in torch");
  }
  for (const char* peer : {"hccl", "torch-floor"}) {
    if (has(options.peers, peer) && (!options.torch || training))
      throw Failure(std::string("the peer ") + peer + " is what 'torch' is compared with: not without it");
  }
  if (options.async && (!options.torch || training)) throw Failure("--async is for 'symccl-bench torch'");
}

void checkSweep(const Options& options) {
  if (options.torch) throw Failure("--sweep-algorithms is for the C++ interface: not with torch or ddp");
  if (!options.peers.empty()) throw Failure("--sweep-algorithms compares SymCCL with itself: not with --peers");
  if ((options.format != "table" && options.format != "json") || !options.csvFile.empty() || !options.plotFile.empty())
    throw Failure("--sweep-algorithms has a table and JSON: no other --format, no --csv, no --plot");
  for (Op op : options.ops) {
    if (!kindOf(op)) throw Failure(std::string("--sweep-algorithms: ") + traitsOf(op).name + " has no algorithms");
  }
  const Environment& said = environment();
  if (!said.algorithm.empty() || said.ringThreshold || said.treeThreshold) {
    throw Failure(
        "--sweep-algorithms asks for each algorithm itself: not with HCCL_ALGO, HCCL_RING_THRESHOLD or "
        "HCCL_TREE_THRESHOLD");
  }
}

void understand(Options& options, const Words& words, bool hasFactor) {
  const std::string first = words.what.empty() ? "" : words.what.front();
  if (first == "compare" || first == "plot") {
    if (words.what.size() != 3) {
      throw Failure(first == "plot" ? "plot takes a file of results and the SVG file to write"
                                    : "compare takes two files of results: the old one and the new one");
    }
    (first == "plot" ? options.plotRows : options.compareBefore) = words.what[1];
    (first == "plot" ? options.plotFile : options.compareAfter) = words.what[2];
    return;
  }
  options.ops = opsOf(words.what, options.torch);
  options.types = chosen(words.type, "-d", types());
  options.reductions = chosen(words.operation, "-o", reductions());
  options.roots = rootsOf(words.root);
  options.sizes = sizesOf(words, hasFactor);
  options.peers = peersOf(words.peers);
  checkTogether(options, first == "ddp");
  if (options.sweepAlgorithms) checkSweep(options);
}

}  // namespace

Parsed parseOptions(int argc, char** argv) {
  CLI::App app("Measures collectives between the processes of this host, beside their peers and the machine's limits.",
               "symccl-bench");
  Parsed parsed;
  Words words;
  addOptions(app, words, parsed.options);
  app.footer(kFooter);
  try {
    app.parse(argc, argv);
    if (words.version) {
      std::printf("SymCCL %s\n  revision  %s\n  compiler  %s\n  kernels   %s\n", version(), SYMCCL_REVISION,
                  SYMCCL_COMPILER, kernelIsa());
      return parsed;
    }
    understand(parsed.options, words, app.count("-f") > 0);
    parsed.run = true;
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
  } catch (const std::exception& error) {  // CLI::ParseError and Failure
    std::fprintf(stderr, "symccl-bench: %s; 'symccl-bench --help' shows what is accepted\n", error.what());
    parsed.code = kWrongUsage;
  }
  return parsed;
}

}  // namespace symccl::bench
