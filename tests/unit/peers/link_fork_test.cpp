#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "cast.hpp"
#include "memory/heap.hpp"

namespace symccl::testing_links {
namespace {

using namespace std::chrono_literals;

/// Runs `act` in a forked child of this part; its failures are this part's.
void inChild(const std::function<void()>& act) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    act();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(LinkFork, AChildKeepsNoSocket) {
  perform(3, [](Part& part) {
    std::vector<Peer*> peers;
    for (int other = 0; other < 3; ++other) {
      if (other != part.index()) peers.push_back(part.linked(other));
    }
    part.meet(0);
    EXPECT_EQ(openSockets(), 3);
    inChild([] { EXPECT_EQ(openSockets(), 0); });
    part.meet(1);
    for (const Peer* peer : peers) EXPECT_FALSE(peer->gone()) << "the parents are untouched";
    part.meet(2);
  });
}

TEST(LinkFork, AParentsDeathIsSeenThoughItsChildLives) {
  perform(
      2,
      [](Part& part) {
        Peer* peer = part.linked(1 - part.index());
        ASSERT_TRUE(peer);
        if (part.index() == 1) {
          const pid_t child = ::fork();
          if (child == 0) {
            for (;;) ::pause();
          }
          part.stage().word[0].store(child);
          part.meet(0);
          for (;;) ::pause();
        }
        part.meet(0);
        ::kill(part.pidOf(1), SIGKILL);
        EXPECT_TRUE(eventually([&] { return peer->gone().load(); }));
        const auto child = static_cast<pid_t>(part.stage().word[0].load());
        EXPECT_STREQ(processState(child), "is running");
        ::kill(child, SIGKILL);
      },
      1);
}

TEST(LinkFork, AChildUsesTheParentsLinksInVain) {
  perform(2, [](Part& part) {
    Peer* peer = part.linked(1 - part.index());
    ASSERT_TRUE(peer);
    Links& parents = part.links();
    Result<Heap*> heap = Heap::ofDevice(part.index());
    ASSERT_TRUE(heap);
    const int handle = parents.watch([](Peer&) {});
    inChild([&] {
      EXPECT_EQ(parents.reach(peer->entry(), late(), {}).error().code(), Code::forked);
      EXPECT_EQ(parents.exchangeHeaps(*peer, **heap, randomUuid(), late(), {}).error().code(), Code::forked);
      EXPECT_EQ(parents.post(*peer, "t", {}).error().code(), Code::forked);
      EXPECT_EQ(parents.collect(*peer, "t", late(), {}).error().code(), Code::forked);
      parents.unwatch(handle);
    });
    part.meet(0);
    EXPECT_FALSE(peer->gone());
    part.meet(1);
  });
}

TEST(LinkFork, AChildMayHaveLinksOfItsOwn) {
  perform(2, [](Part& part) {
    ASSERT_TRUE(part.linked(1 - part.index()));
    Links& parents = part.links();
    const Uuid id = parents.self().process;
    // The two children reach each other; words 0..: their entries are told through the stage's slots 2 and 3.
    inChild([&] {
      Result<Links*> own = Links::instance();
      ASSERT_TRUE(own);
      EXPECT_NE(*own, &parents);
      EXPECT_NE((*own)->self().process, id);
      EXPECT_EQ((*own)->self().pid, static_cast<std::uint32_t>(::getpid()));
      Part child(part.index() + 2, 4, part.stage());
      Peer* peer = child.linked(part.index() == 0 ? 3 : 2);
      ASSERT_TRUE(peer);
      EXPECT_EQ(openSockets(), 2);
      ASSERT_TRUE(child.links().post(*peer, "t", {static_cast<std::uint8_t>(part.index())}));
      Result<Bytes> got = child.links().collect(*peer, "t", late(), {});
      ASSERT_TRUE(got);
      EXPECT_EQ(*got, Bytes{static_cast<std::uint8_t>(1 - part.index())});
      child.meet(10, 2);
    });
    EXPECT_EQ(&part.links(), &parents);
    part.meet(0);
  });
}

TEST(LinkFork, ForkingWhileLinksComeAndGoLeavesNoSocketInChildren) {
  perform(2, [](Part& part) {
    part.publish();
    part.entryOf(1 - part.index());
    std::thread linking([&] { EXPECT_TRUE(part.linked(1 - part.index())); });
    for (int i = 0; i < 20; ++i) inChild([] {});
    linking.join();
    part.meet(0);
    inChild([] { EXPECT_EQ(openSockets(), 0); });
    part.meet(1);
  });
}

}  // namespace
}  // namespace symccl::testing_links
