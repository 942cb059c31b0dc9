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
  static const std::vector<std::string> all = {"gloo", "openmpi", "mpich", "shm-staged"};
  return all;
}

std::vector<std::vector<std::string>> peerCommands(const std::string& name, int ranks, const Options& options,
                                                   const std::string& socket, const std::string& meeting,
                                                   std::string& absent) {
  const std::string size = std::to_string(ranks);
  std::vector<std::vector<std::string>> commands;
  if (name == "gloo" || name == "symccl") {
    const std::string python = pythonFor(options);
    if (python.empty()) {
      absent = "no Python was found";
      return {};
    }
    for (int rank = 0; rank < ranks; ++rank) {
      commands.push_back({python, "-c", kTorchWorker, socket, std::to_string(rank), size, name, meeting,
                          std::to_string(options.registration)});
    }
    return commands;
  }
  const std::string worker = besideThisProgram("symccl-bench-peer-" + name);
  std::string launcher = onPath("mpirun." + name);
  if (launcher.empty() && name == "mpich") launcher = onPath("mpiexec.mpich");
  if (worker.empty()) absent = "its worker is not built; 'make bench-peers' installs and builds it";
  if (launcher.empty()) absent = "mpirun." + name + " is not installed; 'make bench-peers' installs it";
  if (!absent.empty()) return {};
  std::vector<std::string> command = {launcher, "-n", size};
  if (name == "mpich" && options.bound) command.insert(command.begin() + 1, {"-bind-to", "core"});
  if (name == "openmpi") command.insert(command.begin() + 1, {"--allow-run-as-root", "--oversubscribe"});
  command.insert(command.end(), {worker, socket});
  return {command};
}

}  // namespace symccl::bench
