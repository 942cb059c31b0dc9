#include "peers/process_entry.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peers/links.hpp"

namespace symccl {
namespace {

TEST(ProcessEntry, ReadsBackWhatItWrites) {
  const ProcessEntry entry{{{3, 5}}, 811, 4026531836, "boot x net y"};
  WireWriter out;
  entry.write(out);
  const Bytes bytes = out.take();
  WireReader in(bytes);
  const ProcessEntry back = ProcessEntry::read(in);
  EXPECT_TRUE(in.complete());
  EXPECT_EQ(back.process, entry.process);
  EXPECT_EQ(back.pid, entry.pid);
  EXPECT_EQ(back.pidNamespace, entry.pidNamespace);
  EXPECT_EQ(back.host, entry.host);
}

TEST(ProcessEntry, OfThisProcess) {
  const ProcessEntry one = ProcessEntry::ofThisProcess(), two = ProcessEntry::ofThisProcess();
  EXPECT_NE(one.process, two.process);
  EXPECT_EQ(one.pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(one.host, hostIdentity());
  EXPECT_EQ(pidHereOf(two, one), ::getpid());
}

TEST(ProcessEntry, PidsOfOtherPlacesMeanNothingHere) {
  const ProcessEntry self = ProcessEntry::ofThisProcess();
  ProcessEntry elsewhere = self;
  elsewhere.pidNamespace += 1;
  EXPECT_EQ(pidHereOf(elsewhere, self), 0);
  ProcessEntry otherHost = self;
  otherHost.host += "x";
  EXPECT_EQ(pidHereOf(otherHost, self), 0) << "the first namespace has the same number on every host";
}

TEST(Peer, IsDescribedWithItsState) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  ProcessEntry entry = ProcessEntry::ofThisProcess();
  entry.pid = static_cast<std::uint32_t>(child);
  const Peer peer(entry, false, child);
  const std::string start = "rank 3 (pid " + std::to_string(child) + ")";
  EXPECT_EQ(peer.describe(3), start + " is running");
  ::kill(child, SIGSTOP);
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  EXPECT_EQ(peer.describe(3), start + " is stopped");
  ::kill(child, SIGKILL);
  siginfo_t ended;
  ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);
  EXPECT_EQ(peer.describe(3), start + " is gone") << "not yet reaped";
  ::waitpid(child, &status, 0);
  EXPECT_EQ(peer.describe(3), start + " is gone");
}

TEST(Peer, OfAnotherPidNamespaceSaysSo) {
  ProcessEntry entry = ProcessEntry::ofThisProcess();
  entry.pid = 7;
  entry.pidNamespace += 1;
  EXPECT_EQ(Peer(entry, false, 0).describe(1), "rank 1 (pid 7 as seen in its own pid namespace) has its link open");
  EXPECT_EQ(Peer(entry, false, ::getpid()).describe(1),
            "rank 1 (pid " + std::to_string(::getpid()) + ", in its own pid namespace 7) is running");
}

}  // namespace
}  // namespace symccl
