#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/checks.hpp"
#include "base/host.hpp"
#include "symccl/spawn.hpp"

extern char** environ;

namespace symccl {

namespace {

constexpr int kCannotStart = 127;

// The environment of one rank, put together before fork(): a child of a threaded process may only call exec.
class RankEnvironment {
 public:
  RankEnvironment(int rank, int ranks, const std::string& root) {
    const std::string own[] = {text("RANK=", rank), text("LOCAL_RANK=", rank), text("WORLD_SIZE=", ranks),
                               text("LOCAL_WORLD_SIZE=", ranks), "SYMCCL_ROOT=" + root};
    lines_.assign(std::begin(own), std::end(own));
    for (char** line = environ; *line != nullptr; ++line) {
      const std::string inherited = *line;
      const std::string name = inherited.substr(0, inherited.find('=') + 1);
      bool replaced = false;
      for (const std::string& mine : own) replaced = replaced || mine.starts_with(name);
      if (!replaced) lines_.push_back(inherited);
    }
    for (std::string& line : lines_) pointers_.push_back(line.data());
    pointers_.push_back(nullptr);
  }
  char* const* get() { return pointers_.data(); }

 private:
  std::vector<std::string> lines_;
  std::vector<char*> pointers_;
};

void endAll(const std::vector<pid_t>& children) {
  for (pid_t child : children) {
    if (child > 0) ::kill(child, SIGKILL);
  }
}

int statusOf(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

}  // namespace

Result<int> runRanks(int ranks, char* const argv[]) {
  if (ranks < 1) return invalid("the number of ranks must be at least 1, not ", ranks);
  const std::string root = "unix:@symccl-ranks-" + randomUuid().hex();
  const pid_t parent = ::getpid();
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    RankEnvironment variables(rank, ranks, root);
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() == parent) ::execve("/proc/self/exe", argv, variables.get());
      ::_exit(kCannotStart);
    }
    if (child < 0) {
      const Error error = systemError("fork of rank ", rank);
      endAll(children);
      for (pid_t started : children) ::waitpid(started, nullptr, 0);
      return error;
    }
    children.push_back(child);
  }
  int first = 0;
  for (int left = ranks; left > 0;) {
    int status = 0;
    const pid_t ended = ::wait(&status);
    if (ended < 0) {
      if (errno == EINTR) continue;
      return systemError("wait for ranks");
    }
    for (pid_t& child : children) {
      if (child != ended) continue;
      child = 0;
      --left;
      if (first == 0 && statusOf(status) != 0) {
        first = statusOf(status);
        endAll(children);
      }
    }
  }
  return first;
}

}  // namespace symccl
