#include "process/process_ranks.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "base/deadline.hpp"
#include "base/host.hpp"

namespace symccl::test {

namespace {

constexpr std::chrono::seconds kWatchdog{100};
constexpr std::chrono::seconds kGrace{5};  // for the others, once one has failed

Stage& freshStage() {
  void* shared = ::mmap(nullptr, sizeof(Stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) std::abort();
  return *new (shared) Stage;
}

// A forked process inherits the failures of the test until then.
int failures() {
  const testing::TestResult& result = *testing::UnitTest::GetInstance()->current_test_info()->result();
  int count = 0;
  for (int part = 0; part < result.total_part_count(); ++part) count += result.GetTestPartResult(part).failed() ? 1 : 0;
  return count;
}

[[noreturn]] void runAs(int rank, int processes, Stage& stage, const std::function<void(RankProcess&)>& body) {
  const int inherited = failures();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  stage.pids[static_cast<std::size_t>(rank)].store(::getpid());
  RankProcess process(rank, processes, stage);
  process.set("RANK", std::to_string(rank));
  process.set("LOCAL_RANK", std::to_string(rank));
  process.set("WORLD_SIZE", std::to_string(processes));
  process.set("LOCAL_WORLD_SIZE", std::to_string(processes));
  for (int other = 0; other < processes; ++other) {
    while (process.pidOf(other) == 0) ::usleep(100);
  }
  body(process);
  std::exit(failures() > inherited ? 1 : 0);  // not _exit: a plain exit must work whatever threads there are
}

// False if the process did not end as it should.
bool judge(int rank, int status, bool toBeKilled) {
  if (toBeKilled) {
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    EXPECT_TRUE(killed) << "process " << rank << " was to be killed";
    return killed;
  }
  if (WIFSIGNALED(status)) ADD_FAILURE() << "process " << rank << " was ended by signal " << WTERMSIG(status);
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) ADD_FAILURE() << "process " << rank << " failed";
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

void RankProcess::set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

Result<std::shared_ptr<Communicator>> RankProcess::create(const CommunicatorOptions& options, int size) {
  return Communicator::create(store_, rank_, size < 0 ? size_ : size, options);
}

std::shared_ptr<Communicator> RankProcess::join(const std::string& name, std::chrono::milliseconds timeout, int size) {
  auto made = create({name, timeout}, size);
  if (made) return *made;
  ADD_FAILURE() << "rank " << rank_ << ": " << made.error().message();
  std::fflush(nullptr);
  ::_exit(1);
}

void RankProcess::meet(int which, int processes) {
  const auto all = static_cast<std::uint32_t>(processes < 0 ? size_ : processes);
  auto& arrived = stage_.arrived[static_cast<std::size_t>(which)];
  arrived.fetch_add(1);
  EXPECT_TRUE(eventually([&] { return arrived.load() >= all; })) << "process " << rank_ << " at point " << which;
}

std::string RankProcess::nameOf(int rank) const {
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(pidOf(rank)) + ")";
}

void RankProcess::signal(int rank, int signal) const { EXPECT_EQ(::kill(pidOf(rank), signal), 0); }

void RankProcess::awaitState(int rank, const std::string& state) const {
  EXPECT_TRUE(eventually([&] { return processState(pidOf(rank)) == state; })) << "rank " << rank << " never " << state;
}

void RankProcess::stop(int rank) const {
  signal(rank, SIGSTOP);
  awaitState(rank, "is stopped");
}

bool eventually(const std::function<bool()>& condition) {
  const Deadline deadline = Deadline::in(50s);
  while (!condition()) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

void onProcesses(int processes, const std::function<void(RankProcess&)>& body, const std::set<int>& killed) {
  ASSERT_LE(processes, kMostProcesses);
  Stage& stage = freshStage();
  std::fflush(nullptr);  // else every process prints what waits in the buffers
  std::vector<pid_t> open;
  for (int rank = 0; rank < processes; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) runAs(rank, processes, stage, body);
    ASSERT_GT(pid, 0);
    open.push_back(pid);
  }
  Deadline deadline = Deadline::in(kWatchdog);
  bool ending = false;
  for (int left = processes; left > 0; ::usleep(500)) {
    for (int rank = 0; rank < processes; ++rank) {
      pid_t& pid = open[static_cast<std::size_t>(rank)];
      int status = 0;
      if (pid == 0 || ::waitpid(pid, &status, WNOHANG) != pid) continue;
      pid = 0;
      --left;
      if (!ending && !judge(rank, status, killed.count(rank) != 0)) deadline = earlier(deadline, Deadline::in(kGrace));
    }
    if (ending || !deadline.passed()) continue;
    ending = true;
    for (int rank = 0; rank < processes; ++rank) {
      const pid_t pid = open[static_cast<std::size_t>(rank)];
      if (pid == 0) continue;
      ADD_FAILURE() << "process " << rank << " (pid " << pid << ", which " << processState(pid) << ") did not end";
      ::kill(pid, SIGKILL);
    }
  }
  ::munmap(&stage, sizeof(Stage));
}

}  // namespace symccl::test
