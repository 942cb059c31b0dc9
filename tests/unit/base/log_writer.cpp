// A program that logs: from four threads, at each level, and from a forked child. See log_test.cpp.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "base/log.hpp"

using symccl::log;
using symccl::LogLevel;

int main() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i) log(LogLevel::info, "COMM", t, "thread ", t, " line ", i);
    });
  }
  for (auto& thread : threads) thread.join();
  log(LogLevel::trace, "COMM", 9, "traced");
  log(LogLevel::info, "POOL", 9, "pooled");
  log(LogLevel::warn, "POOL", 9, "warned");
  const pid_t child = ::fork();
  if (child == 0) {
    log(LogLevel::info, "COMM", 8, "from the child");
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
}
