#include "base/host.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <set>

namespace symccl {
namespace {

/// A child that sleeps until it is killed.
class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ != 0) return;
    while (true) ::pause();
  }
  ~Child() { end(); }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  int pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST(Host, BytesText) {
  constexpr std::size_t kOne = 1;
  EXPECT_EQ(bytesText(0), "0 B");
  EXPECT_EQ(bytesText(1023), "1023 B");
  EXPECT_EQ(bytesText(1024), "1 KiB");
  EXPECT_EQ(bytesText(1536), "1.5 KiB");
  EXPECT_EQ(bytesText((kOne << 20) - 1), "1 MiB");
  EXPECT_EQ(bytesText(2 << 20), "2 MiB");
  EXPECT_EQ(bytesText((kOne << 30) + (kOne << 29)), "1.5 GiB");
  EXPECT_EQ(bytesText(kOne << 40), "1 TiB");
  EXPECT_EQ(bytesText(SIZE_MAX), "16 EiB");
}

TEST(Host, CpusFollowTheAffinityMask) {
  const int before = availableCpus();
  EXPECT_GE(before, 1);
  cpu_set_t all, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  EXPECT_LE(before, CPU_COUNT(&all));
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(availableCpus(), 1);
  ASSERT_EQ(::sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(availableCpus(), before);
}

TEST(Host, SchedulingGroupIsTheSessionsWhereTheKernelHasAutogroups) {
  const std::string own = schedulingGroup();
  ASSERT_FALSE(own.empty());
  const auto inChild = [&](bool sessionOfItsOwn) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (sessionOfItsOwn) ::setsid();
      ::_exit(schedulingGroup() == own ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  };
  EXPECT_TRUE(inChild(false));
  EXPECT_EQ(inChild(true), !own.starts_with("/autogroup")) << own;
}

TEST(Host, MemoryLeftIsWithinTheMachine) {
  const MemoryLeft left = memoryLeft();
  const auto machine =
      static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_GT(left.bytes, 0u);
  EXPECT_LE(left.bytes, machine);
  EXPECT_TRUE(left.limit == "machine" || left.limit.starts_with("cgroup /")) << left.limit;
}

TEST(Host, AddressSpaceIsTheLimitLessWhatIsUsed) {
  // In a child, because a limit once lowered need not go up again.
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr std::size_t kRoom = std::size_t{1} << 30;
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t bytes = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + kRoom;
    const rlimit limit{bytes, bytes};
    if (addressSpaceLeft() != SIZE_MAX) ::_exit(1);
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(2);
    const std::size_t left = addressSpaceLeft();
    ::_exit(left > kRoom / 2 && left < kRoom + kRoom / 2 ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 1) GTEST_SKIP() << "the address space is limited already";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Host, IdentityIsStableAndOneLine) {
  EXPECT_EQ(hostIdentity(), hostIdentity());
  EXPECT_EQ(hostIdentity().find('\n'), std::string::npos);
  EXPECT_NE(hostIdentity().find("net:["), std::string::npos) << hostIdentity();
}

TEST(Host, UuidsDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(randomUuid().hex());
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_EQ(seen.begin()->size(), 32u);
  EXPECT_EQ((Uuid{{1, 0xabcdef0123456789}}.hex()), "0000000000000001abcdef0123456789");
}

TEST(Host, ProcessStates) {
  EXPECT_STREQ(processState(::getpid()), "is running");
  EXPECT_STREQ(processState(-1), "is gone");
  Child child;
  ASSERT_GT(child.pid(), 0);
  EXPECT_STREQ(processState(child.pid()), "is running");
  ASSERT_EQ(::kill(child.pid(), SIGSTOP), 0);
  ASSERT_EQ(::waitpid(child.pid(), nullptr, WUNTRACED), child.pid());
  EXPECT_STREQ(processState(child.pid()), "is stopped");
  ASSERT_EQ(::kill(child.pid(), SIGKILL), 0);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child.pid()), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_STREQ(processState(child.pid()), "is gone") << "a zombie is gone";
  const int pid = child.pid();
  child.end();
  EXPECT_STREQ(processState(pid), "is gone");
}

}  // namespace
}  // namespace symccl
