// A part of a test that runs in a forked child.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace symccl {

/// Runs `body` in a child, where EXPECT and ASSERT count as here; false if any failed, or if the child died or hung.
template <class Body>
[[nodiscard]] bool passesInChild(Body&& body) {
  constexpr unsigned kSeconds = 60;
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(kSeconds);
    std::forward<Body>(body)();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid) return false;
  if (WIFSIGNALED(status)) std::fprintf(stderr, "the child was ended by signal %d\n", WTERMSIG(status));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace symccl
