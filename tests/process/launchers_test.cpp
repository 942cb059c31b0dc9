// The example program as its users start it: by itself, by mpirun, by torchrun.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

namespace symccl::test {
namespace {

const std::string kExample = SYMCCL_TEST_EXAMPLE;

struct Outcome {
  int status;
  std::string output;
};

// The shell is the user's; whatever hangs is ended by timeout(1).
Outcome run(const std::string& command) {
  const std::string whole =
      "unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE SYMCCL_ROOT; timeout -k 5 80 " + command + " 2>&1 </dev/null";
  std::FILE* pipe = ::popen(whole.c_str(), "r");
  if (pipe == nullptr) return {-1, "cannot start a shell"};
  std::string output;
  std::array<char, 4096> part{};
  while (const std::size_t bytes = std::fread(part.data(), 1, part.size(), pipe)) output.append(part.data(), bytes);
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, output};
}

// The program of this name that a shell would find, or nothing.
std::string inPath(const std::string& program) {
  std::istringstream folders(std::getenv("PATH") ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string path = folder + "/" + program;
    if (!folder.empty() && ::access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

void expectSum(const Outcome& outcome, const std::string& launcher) {
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  const std::string line = "4 ranks (" + launcher + "): sum 10.0, 0 wrong elements, 1 zero-copy operation(s)";
  EXPECT_NE(outcome.output.find(line), std::string::npos) << outcome.output;
}

TEST(Launchers, TheProgramItself) { expectSum(run(kExample + " --ranks 4"), "torchrun"); }

TEST(Launchers, ARankThatFailsFailsTheJob) {
  // 16 MiB are below the least heap: every rank says so.
  const Outcome outcome = run("env SYMCCL_HEAP_SIZE=16M " + kExample + " --ranks 3");
  EXPECT_EQ(outcome.status, 1) << outcome.output;
  EXPECT_NE(outcome.output.find("SYMCCL_HEAP_SIZE is '16M'"), std::string::npos) << outcome.output;
}

TEST(Launchers, Mpirun) {
  const std::string mpirun = inPath("mpirun");
  if (mpirun.empty()) GTEST_SKIP() << "this machine has no mpirun";
  const Outcome version = run(mpirun + " --version");
  const bool open = version.output.find("Open MPI") != std::string::npos;
  const std::string options = open ? " --oversubscribe --allow-run-as-root" : "";
  expectSum(run(mpirun + options + " -n 4 " + kExample), open ? "openmpi" : "mpich");
}

TEST(Launchers, Torchrun) {
  const std::string torchrun = inPath("torchrun").empty() ? SYMCCL_TEST_TORCHRUN : inPath("torchrun");
  if (::access(torchrun.c_str(), X_OK) != 0) GTEST_SKIP() << "this machine has no torchrun, and .venv neither";
  expectSum(run(torchrun + " --standalone --no-python --nproc_per_node=4 " + kExample), "torchrun");
}

}  // namespace
}  // namespace symccl::test
