#include <signal.h>
#include <unistd.h>

#include <mutex>
#include <thread>

#include "cast.hpp"
#include "memory/heap.hpp"

namespace symccl::testing_links {
namespace {

using namespace std::chrono_literals;

TEST(Death, AKilledPeerIsNoticedByAllItsWatchers) {
  perform(
      3,
      [](Part& part) {
        const int victim = 2;
        std::vector<Peer*> peers(3, nullptr);
        for (int other = 0; other < 3; ++other) {
          if (other != part.index()) peers[static_cast<std::size_t>(other)] = part.linked(other);
        }
        std::mutex mutex;
        std::vector<Peer*> gone;
        int unwanted = 0;
        const int handle = part.links().watch([&](Peer& peer) {
          EXPECT_TRUE(peer.gone()) << "set before watchers are called";
          const std::lock_guard lock(mutex);
          gone.push_back(&peer);
        });
        const int off = part.links().watch([&](Peer&) { ++unwanted; });
        part.links().unwatch(off);
        const int before = openDescriptors();
        part.meet(0);
        if (part.index() == victim) {
          for (;;) ::pause();
        }
        if (part.index() == 0) ::kill(part.pidOf(victim), SIGKILL);
        EXPECT_TRUE(eventually([&] {
          const std::lock_guard lock(mutex);
          return !gone.empty();
        }));
        Peer* dead = peers[victim];
        EXPECT_EQ(gone, std::vector<Peer*>{dead});
        EXPECT_TRUE(dead->gone());
        EXPECT_EQ(dead->describe(2), "rank 2 (pid " + std::to_string(part.pidOf(victim)) + ") is gone");
        EXPECT_FALSE(peers[static_cast<std::size_t>(1 - part.index())]->gone()) << "the others live";
        EXPECT_LT(openDescriptors(), before) << "its descriptors are closed";

        // Whatever needs it now says so at once.
        Links& links = part.links();
        EXPECT_EQ(links.reach(dead->entry(), late(), {}).error().code(), Code::dead);
        EXPECT_EQ(links.collect(*dead, "topic", late(), {}).error().code(), Code::dead);
        EXPECT_EQ(links.post(*dead, "topic", {1}).error().code(), Code::dead);
        Result<Heap*> mine = Heap::ofDevice(part.index());
        ASSERT_TRUE(mine);
        const Result<Links::Mapping> none = links.exchangeHeaps(*dead, **mine, randomUuid(), late(), {});
        ASSERT_FALSE(none);
        EXPECT_EQ(none.error().code(), Code::dead);
        EXPECT_NE(none.error().message().find(std::to_string(part.pidOf(victim))), std::string::npos);
        links.unwatch(handle);
        part.meet(1, 2);
        EXPECT_EQ(unwanted, 0);
      },
      2);
}

TEST(Death, EndsAWaitThatIsUnderWay) {
  perform(
      2,
      [](Part& part) {
        Peer* peer = part.linked(1 - part.index());
        ASSERT_TRUE(peer);
        part.meet(0);
        if (part.index() == 1) {
          for (;;) ::pause();
        }
        std::thread killer([&] {
          std::this_thread::sleep_for(100ms);
          ::kill(part.pidOf(1), SIGKILL);
        });
        Result<Bytes> none = part.links().collect(*peer, "never", Deadline::never(), {});
        killer.join();
        ASSERT_FALSE(none);
        EXPECT_EQ(none.error().code(), Code::dead);
      },
      1);
}

TEST(Death, APlainExitIsNoticedTooAndItsLastWordsAreHeard) {
  perform(2, [](Part& part) {
    Peer* peer = part.linked(1 - part.index());
    ASSERT_TRUE(peer);
    if (part.index() == 1) {
      EXPECT_TRUE(part.links().collect(*peer, "linked", late(), {}));  // not gone before the other end is there
      for (std::uint8_t i = 0; i < 30; ++i) EXPECT_TRUE(part.links().post(*peer, "words", Bytes(1000, i)));
      return;
    }
    ASSERT_TRUE(part.links().post(*peer, "linked", {}));
    EXPECT_TRUE(eventually([&] { return peer->gone().load(); }));
    for (std::uint8_t i = 0; i < 30; ++i) {
      Result<Bytes> got = part.links().collect(*peer, "words", late(), {});
      ASSERT_TRUE(got) << got.error().message();
      EXPECT_EQ(*got, Bytes(1000, i));
    }
    EXPECT_EQ(part.links().collect(*peer, "words", late(), {}).error().code(), Code::dead);
  });
}

TEST(Death, APeerThatStopsIsNotGone) {
  perform(2, [](Part& part) {
    Peer* peer = part.linked(1 - part.index());
    ASSERT_TRUE(peer);
    part.meet(0);
    if (part.index() == 0) {
      ::kill(part.pidOf(1), SIGSTOP);
      EXPECT_TRUE(eventually([&] { return peer->describe(1).ends_with(" is stopped"); }));
      Result<Bytes> none = part.links().collect(*peer, "topic", Deadline::in(120ms), {});
      ASSERT_FALSE(none);
      EXPECT_EQ(none.error().code(), Code::timeout);
      EXPECT_NE(none.error().message().find(" is stopped"), std::string::npos) << none.error().message();
      EXPECT_FALSE(peer->gone());
      ::kill(part.pidOf(1), SIGCONT);
    }
    part.meet(1);
    EXPECT_FALSE(peer->gone());
    part.meet(2);
  });
}

TEST(Death, AWatcherMayTakeItselfOff) {
  perform(
      2,
      [](Part& part) {
        ASSERT_TRUE(part.linked(1 - part.index()));
        std::atomic<int> calls{0};
        std::atomic<int> first{0}, second{0};
        Links& links = part.links();
        first = links.watch([&](Peer&) {
          ++calls;
          links.unwatch(first);
          links.unwatch(second);
        });
        second = links.watch([&](Peer&) { calls += 100; });
        part.meet(0);
        if (part.index() == 1) {
          for (;;) ::pause();
        }
        ::kill(part.pidOf(1), SIGKILL);
        EXPECT_TRUE(eventually([&] { return calls.load() > 0; }));
        links.unwatch(second);
        EXPECT_EQ(calls.load(), 1);
      },
      1);
}

}  // namespace
}  // namespace symccl::testing_links
