// Ranks that the kernel keeps apart: by pid namespace, network namespace, user.

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "fault/survivors.hpp"

namespace symccl::test {
namespace {

bool mayUnshare(int what) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::unshare(what) == 0 ? 0 : 1);
  int status = -1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Runs `body` as the first process of a pid namespace of its own, and kills it once word 0 is set.
void inPidNamespace(RankProcess& process, const std::function<void()>& body) {
  ASSERT_EQ(::unshare(CLONE_NEWPID), 0);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    body();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (process.word(0) != 0) ::kill(child, SIGKILL);
    ::usleep(1000);
  }
  EXPECT_EQ(status, process.word(0) != 0 ? SIGKILL : 0);
}

TEST(Strangers, PidNamespacesWorkTogether) {
  if (!mayUnshare(CLONE_NEWPID)) GTEST_SKIP() << "this user may not make a pid namespace";
  onProcesses(3, [](RankProcess& process) {
    const auto body = [&] {
      const auto comm = process.join();
      checkAllKinds(*comm, poolFor(*comm, Memory::registered), 5000, 1);
      checkAllKinds(*comm, nullptr, 5000, 2);
    };
    process.rank() == 1 ? inPidNamespace(process, body) : body();
  });
}

TEST(Strangers, ADeathInAnotherPidNamespaceIsNoticed) {
  if (!mayUnshare(CLONE_NEWPID)) GTEST_SKIP() << "this user may not make a pid namespace";
  onProcesses(3, [](RankProcess& process) {
    if (process.rank() == 1) {
      return inPidNamespace(process, [&] {
        const auto comm = process.join();
        process.meet(0);
        process.word(0) = 1;
        for (;;) ::pause();
      });
    }
    const auto comm = process.join();
    process.meet(0);
    const Status status = comm->run(Operation::barrier());
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::dead) << status.error().message();
    EXPECT_CONTAINS(status.error().message(), "rank 1 (pid ");
    EXPECT_CONTAINS(status.error().message(), "in its own pid namespace 1) is gone");
  });
}

TEST(Strangers, NetworkNamespacesDoNot) {
  if (!mayUnshare(CLONE_NEWNET)) GTEST_SKIP() << "this user may not make a network namespace";
  onProcesses(3, [](RankProcess& process) {
    ASSERT_TRUE(process.rank() != 1 || ::unshare(CLONE_NEWNET) == 0);
    const auto comm = process.create({"world", 60s});
    ASSERT_FALSE(comm);
    EXPECT_EQ(comm.error().code(), Code::unsupported) << comm.error().message();
    EXPECT_CONTAINS(comm.error().message(), "network namespace");
    EXPECT_CONTAINS(comm.error().message(), "rank 1");
  });
}

TEST(Strangers, UsersDoNot) {
  if (::geteuid() != 0) GTEST_SKIP() << "this user cannot become another";
  onProcesses(2, [](RankProcess& process) {
    ASSERT_TRUE(process.rank() == 0 || ::setresuid(65534, 65534, 65534) == 0);
    const auto comm = process.create({"world", 60s});
    ASSERT_FALSE(comm);
    EXPECT_EQ(comm.error().code(), Code::invalid) << comm.error().message();
    EXPECT_CONTAINS(comm.error().message(), "user");
  });
}

}  // namespace
}  // namespace symccl::test
