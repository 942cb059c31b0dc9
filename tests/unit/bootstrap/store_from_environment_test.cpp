// Ranks started by fork() find each other through what launchers set.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <vector>

#include "base/host.hpp"
#include "bootstrap/job.hpp"
#include "symccl/store.hpp"

namespace symccl {
namespace {

using namespace std::chrono_literals;
using Settings = std::map<std::string, std::string>;

/// Each rank publishes its number and reads everyone's; rank 0's store outlives the others.
int exchangeThroughStore() {
  Result<Launch> launch = launchFromEnvironment();
  if (!launch) return 10;
  Result<std::shared_ptr<Store>> store = storeFromEnvironment(*launch, 30s);
  if (!store) return 11;
  Store& meeting = **store;
  if (!meeting.set("rank/" + std::to_string(launch->rank), {static_cast<std::uint8_t>(launch->rank + 1)})) return 12;
  for (int rank = 0; rank < launch->size; ++rank) {
    Result<Bytes> got = meeting.get("rank/" + std::to_string(rank), 30s);
    if (!got || *got != Bytes{static_cast<std::uint8_t>(rank + 1)}) return 13;
  }
  if (!meeting.add("done", 1)) return 14;
  while (launch->rank == 0 && *meeting.add("done", 0) < launch->size) ::usleep(1000);
  return 0;
}

/// The exit codes of one process a rank; rank 0 starts last.
std::vector<int> runRanks(int size, const std::function<Settings(int)>& settingsOf) {
  std::vector<pid_t> pids(static_cast<std::size_t>(size));
  for (int rank = size - 1; rank >= 0; --rank) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (const auto& [name, value] : settingsOf(rank)) ::setenv(name.c_str(), value.c_str(), 1);
      ::_exit(exchangeThroughStore());
    }
    pids[static_cast<std::size_t>(rank)] = pid;
  }
  std::vector<int> codes;
  for (const pid_t pid : pids) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  return codes;
}

TEST(StoreFromEnvironment, OneRank) {
  EXPECT_EQ(runRanks(1, [](int) { return Settings{}; }), std::vector<int>(1));
}

TEST(StoreFromEnvironment, TorchrunOnOneHost) {
  const std::string run = randomUuid().hex();
  EXPECT_EQ(runRanks(4,
                     [&](int rank) {
                       return Settings{{"RANK", std::to_string(rank)},
                                       {"WORLD_SIZE", "4"},
                                       {"LOCAL_RANK", std::to_string(rank)},
                                       {"LOCAL_WORLD_SIZE", "4"},
                                       {"MASTER_ADDR", "localhost"},
                                       {"MASTER_PORT", "29400"},
                                       {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                       {"TORCHELASTIC_RUN_ID", run}};
                     }),
            std::vector<int>(4));
}

TEST(StoreFromEnvironment, MpichWithoutAJobsName) {
  EXPECT_EQ(runRanks(3,
                     [](int rank) {
                       return Settings{{"PMI_RANK", std::to_string(rank)},
                                       {"PMI_SIZE", "3"},
                                       {"MPI_LOCALRANKID", std::to_string(rank)},
                                       {"MPI_LOCALNRANKS", "3"}};
                     }),
            std::vector<int>(3));
}

TEST(StoreFromEnvironment, OpenMpi) {
  const std::string job = randomUuid().hex();
  EXPECT_EQ(runRanks(2,
                     [&](int rank) {
                       return Settings{{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                                       {"OMPI_COMM_WORLD_SIZE", "2"},
                                       {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank)},
                                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                       {"PMIX_NAMESPACE", job}};
                     }),
            std::vector<int>(2));
}

TEST(StoreFromEnvironment, MasterAddress) {
  const auto probe = TcpStore::serve("127.0.0.1", 0, "");  // a port that is free now, and likely still is in a moment
  ASSERT_TRUE(probe);
  const std::string port = std::to_string((*probe)->port());
  const_cast<std::unique_ptr<TcpStore>&>(*probe).reset();
  EXPECT_EQ(runRanks(2,
                     [&](int rank) {
                       return Settings{{"RANK", std::to_string(rank)},
                                       {"WORLD_SIZE", "2"},
                                       {"MASTER_ADDR", "127.0.0.1"},
                                       {"MASTER_PORT", port}};
                     }),
            std::vector<int>(2));
}

TEST(LaunchingProcess, WrappersDoNotMatter) {
  const std::string here = launchingProcess("SYMCCL_TEST_NOT_SET_ANYWHERE");
  EXPECT_TRUE(here.starts_with(std::to_string(::getppid()) + '@')) << here;
  // A shell that has the variable is a wrapper; this process, which started it, has not and is the launcher.
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  const pid_t wrapper = ::fork();
  if (wrapper == 0) {
    ::setenv("SYMCCL_TEST_RANK", "1", 1);
    const std::string command = "sleep 30 & echo $! >&" + std::to_string(pipes[1]) + "; wait";
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(1);
  }
  ::close(pipes[1]);
  char text[32] = {};
  ASSERT_GT(::read(pipes[0], text, sizeof text - 1), 0);
  const int rank = std::stoi(text);
  const std::string found = launchingProcess("SYMCCL_TEST_RANK", rank);
  EXPECT_TRUE(found.starts_with(std::to_string(::getpid()) + '@')) << found;
  EXPECT_EQ(launchingProcess("SYMCCL_TEST_RANK", rank), found) << "the start time is told alike";
  EXPECT_TRUE(launchingProcess("SYMCCL_TEST_NOT_SET_ANYWHERE", rank).starts_with(std::to_string(wrapper) + '@'));
  ::kill(rank, SIGKILL);
  ::kill(wrapper, SIGKILL);
  ::waitpid(wrapper, nullptr, 0);
  ::close(pipes[0]);
}

}  // namespace
}  // namespace symccl
