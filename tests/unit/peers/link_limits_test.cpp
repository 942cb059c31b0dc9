// What the system refuses: descriptors; and what it hides: other pid namespaces.
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <thread>
#include <vector>

#include "base/file_descriptor.hpp"
#include "cast.hpp"
#include "memory/heap.hpp"

namespace symccl::testing_links {
namespace {

using namespace std::chrono_literals;

/// Uses up the descriptors of this process while it lives. Sanitizers need some at exit.
class NoDescriptors {
 public:
  NoDescriptors() {
    rlimit limit{};
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, 200);
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (FileDescriptor one{::open("/dev/null", O_RDONLY)}) taken_.push_back(std::move(one));
  }

 private:
  std::vector<FileDescriptor> taken_;
};

void expectNoDescriptorLeft(const Error& error) {
  EXPECT_EQ(error.code(), Code::system) << error.message();
  EXPECT_NE(error.message().find("descriptor"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("ulimit -n"), std::string::npos) << error.message();
}

TEST(LinkLimits, WhenTheAcceptorHasNoDescriptorBothSidesAreTold) {
  perform(2, [](Part& part) {
    part.publish();
    const int other = 1 - part.index();
    const bool connects = part.links().self().process < part.entryOf(other).process;
    std::optional<NoDescriptors> none;
    if (!connects) {
      // Starts the sentinel.
      EXPECT_FALSE(part.links().reach(part.entryOf(other), Deadline::in(10ms), {}));
      EXPECT_TRUE(eventually([] { return sentinelThread() != 0; }));
      std::this_thread::sleep_for(50ms);
      none.emplace();
    }
    part.meet(0);
    Result<Peer*> peer = part.links().reach(part.entryOf(other), late(), {});
    ASSERT_FALSE(peer);
    expectNoDescriptorLeft(peer.error());
    part.meet(1);
  });
}

TEST(LinkLimits, WhenTheConnectorHasNoDescriptorItSaysSo) {
  perform(2, [](Part& part) {
    part.publish();
    const int other = 1 - part.index();
    const ProcessEntry entry = part.entryOf(other);
    if (part.links().self().process < entry.process) {
      EXPECT_FALSE(part.links().reach(entry, Deadline::in(10ms), {}));  // starts the sentinel
      const NoDescriptors none;
      Result<Peer*> peer = part.links().reach(entry, late(), {});
      ASSERT_FALSE(peer);
      EXPECT_EQ(peer.error().code(), Code::system);
      EXPECT_NE(peer.error().message().find("EMFILE"), std::string::npos) << peer.error().message();
    }
    part.meet(0);
  });
}

TEST(LinkLimits, AHeapThatCannotBeReceivedIsAnError) {
  perform(2, [](Part& part) {
    Peer* peer = part.linked(1 - part.index());
    ASSERT_TRUE(peer);
    Result<Heap*> mine = Heap::ofDevice(part.index());
    ASSERT_TRUE(mine);
    const auto at = static_cast<std::size_t>(2 * part.index());
    part.stage().word[at].store(static_cast<std::int64_t>((*mine)->id().words[0]));
    part.stage().word[at + 1].store(static_cast<std::int64_t>((*mine)->id().words[1]));
    std::optional<NoDescriptors> none;
    if (part.index() == 0) none.emplace();
    part.meet(0);
    const auto theirs = static_cast<std::size_t>(2 * (1 - part.index()));
    const Uuid id{{static_cast<std::uint64_t>(part.stage().word[theirs].load()),
                   static_cast<std::uint64_t>(part.stage().word[theirs + 1].load())}};
    Result<Links::Mapping> mapping = part.links().exchangeHeaps(*peer, **mine, id, late(), {});
    if (part.index() == 0) {
      ASSERT_FALSE(mapping);
      expectNoDescriptorLeft(mapping.error());
    } else {
      EXPECT_TRUE(mapping) << mapping.error().message();
    }
    EXPECT_FALSE(peer->gone()) << "the link itself is whole";
    part.meet(1);
  });
}

TEST(LinkLimits, ExchangesLeaveNoDescriptorBehind) {
  perform(2, [](Part& part) {
    Peer* peer = part.linked(1 - part.index());
    ASSERT_TRUE(peer);
    Result<Heap*> mine = Heap::ofDevice(part.index());
    ASSERT_TRUE(mine);
    const auto at = static_cast<std::size_t>(2 * part.index());
    part.stage().word[at].store(static_cast<std::int64_t>((*mine)->id().words[0]));
    part.stage().word[at + 1].store(static_cast<std::int64_t>((*mine)->id().words[1]));
    part.meet(0);
    const auto theirs = static_cast<std::size_t>(2 * (1 - part.index()));
    const Uuid id{{static_cast<std::uint64_t>(part.stage().word[theirs].load()),
                   static_cast<std::uint64_t>(part.stage().word[theirs + 1].load())}};
    ASSERT_TRUE(part.links().exchangeHeaps(*peer, **mine, id, late(), {}));
    const int before = openDescriptors();
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(part.links().exchangeHeaps(*peer, **mine, id, late(), {}));
      ASSERT_TRUE(part.links().post(*peer, "t", {1}));
      ASSERT_TRUE(part.links().collect(*peer, "t", late(), {}));
    }
    EXPECT_EQ(openDescriptors(), before);
    part.meet(1);
  });
}

TEST(LinkLimits, APeerInAnotherPidNamespace) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a pid namespace";
  perform(2, [](Part& part) {
    if (part.index() == 1) {
      if (::unshare(CLONE_NEWPID) != 0) {
        part.stage().word[0].store(2);
        return;
      }
      const pid_t first = ::fork();  // process 1 of the new namespace
      if (first == 0) {
        part.stage().word[0].store(1);
        Peer* peer = part.linked(0);
        if (peer) {
          EXPECT_NE(peer->describe(0).find("as seen in its own pid namespace) has its link open"), std::string::npos);
        }
        part.meet(0);
        ::_exit(testing::Test::HasFailure() ? 1 : 0);
      }
      part.stage().word[1].store(first);
      int status = 0;
      ::waitpid(first, &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
      ::_exit(testing::Test::HasFailure() ? 1 : 0);  // LeakSanitizer's exit starts a thread, which unshare() forbids
    }
    EXPECT_TRUE(eventually([&] { return part.stage().word[0].load() != 0; }));
    if (part.stage().word[0].load() == 2) GTEST_SKIP() << "unshare(CLONE_NEWPID) is refused here";
    Peer* peer = part.linked(1);
    ASSERT_TRUE(peer);
    EXPECT_EQ(peer->entry().pid, 1u);
    EXPECT_EQ(peer->describe(1), "rank 1 (pid " + std::to_string(part.stage().word[1].load()) +
                                     ", in its own pid namespace 1) is running");
    part.meet(0);
    EXPECT_TRUE(eventually([&] { return peer->gone().load(); }));
  });
}

}  // namespace
}  // namespace symccl::testing_links
