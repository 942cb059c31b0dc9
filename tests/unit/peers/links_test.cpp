#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/text_file.hpp"
#include "cast.hpp"

namespace symccl::testing_links {
namespace {

using namespace std::chrono_literals;

TEST(Links, AloneThereIsNoThread) {
  perform(1, [](Part& part) {
    Links& links = part.links();
    EXPECT_EQ(&part.links(), &links);
    Result<Peer*> self = links.reach(links.self(), late(), {});
    ASSERT_TRUE(self);
    EXPECT_EQ(sentinelThread(), 0);
    EXPECT_EQ(openSockets(), 1);
  });
}

TEST(Links, EveryoneReachesEveryone) {
  perform(6, [](Part& part) {
    part.publish();
    for (int other = 0; other < part.size(); ++other) {
      if (other == part.index()) continue;
      Peer* peer = part.linked(other);
      ASSERT_TRUE(peer);
      EXPECT_FALSE(peer->self());
      EXPECT_FALSE(peer->gone());
      EXPECT_EQ(peer->entry().process, part.entryOf(other).process);
      EXPECT_EQ(peer->describe(other),
                "rank " + std::to_string(other) + " (pid " + std::to_string(part.pidOf(other)) + ") is running");
    }
    part.meet(0);
    EXPECT_EQ(openSockets(), 1 + part.size() - 1) << "the listener, and one for each pair";
    part.meet(1);
  });
}

TEST(Links, ManyThreadsAtOnceStillMakeOneSocketAPair) {
  perform(3, [](Part& part) {
    part.publish();
    for (int other = 0; other < part.size(); ++other) part.entryOf(other);
    part.meet(0);
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (int k = 0; k < part.size(); ++k) {
          const int other = (k + t) % part.size();
          Result<Peer*> peer = part.links().reach(part.entryOf(other), late(), {});
          ASSERT_TRUE(peer) << peer.error().message();
          EXPECT_EQ((*peer)->entry().process, part.entryOf(other).process);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    part.meet(1);
    EXPECT_EQ(openSockets(), 3);
    Peer* one = part.linked((part.index() + 1) % 3);
    EXPECT_EQ(one, part.linked((part.index() + 1) % 3)) << "a peer is one object";
    part.meet(2);
  });
}

TEST(Links, SeveralThreadsMakeTheInstanceAtOnce) {
  perform(1, [](Part&) {
    std::vector<std::thread> threads;
    std::array<Links*, 8> made{};
    for (auto& one : made) {
      threads.emplace_back([&one] {
        Result<Links*> links = Links::instance();
        ASSERT_TRUE(links);
        one = *links;
      });
    }
    for (auto& thread : threads) thread.join();
    for (const Links* one : made) EXPECT_EQ(one, made[0]);
    EXPECT_EQ(openSockets(), 1);
  });
}

TEST(Links, AnIdleSentinelSleepsAndTakesNoSignals) {
  perform(2, [](Part& part) {
    ASSERT_TRUE(part.linked(1 - part.index()));
    part.meet(0);
    const std::string task = "/proc/self/task/" + std::to_string(sentinelThread());
    ASSERT_NE(sentinelThread(), 0);
    const auto timesRun = [&] { return readTextFile(task + "/schedstat").value_or(""); };
    EXPECT_TRUE(eventually([&] {
      const std::string before = timesRun();
      std::this_thread::sleep_for(300ms);
      return timesRun() == before;
    })) << "it never was scheduled in a while";
    const std::string status = readTextFile(task + "/status").value_or("");
    const auto at = status.find("SigBlk:");
    ASSERT_NE(at, std::string::npos);
    const std::uint64_t blocked = std::stoull(status.substr(at + 7), nullptr, 16);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM})
      EXPECT_TRUE(blocked >> (signal - 1) & 1) << signal;
    part.meet(1);
  });
}

TEST(Links, APeerThatDoesNotComeIsNamed) {
  perform(2, [](Part& part) {
    part.publish();
    const ProcessEntry other = part.entryOf(1 - part.index());
    if (part.index() == 0) {
      Result<Peer*> none = part.links().reach(other, Deadline::in(150ms), {});
      ASSERT_FALSE(none);
      EXPECT_EQ(none.error().code(), Code::timeout);
      EXPECT_NE(none.error().message().find("pid " + std::to_string(part.pidOf(1)) + " is running"), std::string::npos)
          << none.error().message();
    }
    part.meet(0);
    EXPECT_TRUE(part.linked(1 - part.index())) << "a wait that ended does no harm";
    part.meet(1);
  });
}

// Both ways: whoever connects is decided by the ids, which are random, so each part once is the one who waits.
TEST(Links, AStoppedPeerIsNamedAndMayGoOn) {
  for (int stopped = 0; stopped < 2; ++stopped) {
    perform(2, [&](Part& part) {
      part.publish();
      part.entryOf(1 - part.index());
      if (part.index() != stopped) {
        const pid_t pid = part.pidOf(stopped);
        part.meet(0);
        ::kill(pid, SIGSTOP);
        EXPECT_TRUE(eventually([&] { return std::string(processState(pid)) == "is stopped"; }));
        Result<Peer*> none = part.links().reach(part.entryOf(stopped), Deadline::in(150ms), {});
        EXPECT_FALSE(none);
        if (!none) {
          EXPECT_EQ(none.error().code(), Code::timeout);
          EXPECT_NE(none.error().message().find("pid " + std::to_string(pid) + " is stopped"), std::string::npos)
              << none.error().message();
        }
        ::kill(pid, SIGCONT);
      } else {
        part.meet(0);
      }
      EXPECT_TRUE(part.linked(1 - part.index()));
      part.meet(1);
    });
  }
}

TEST(Links, ASentinelThatIsStoppedMidwayDoesNotTakeTheConnectorForDead) {
  // The connector gives up while the acceptor is stopped, so that a dead connection waits there; then both go on.
  perform(2, [](Part& part) {
    part.publish();
    const int other = 1 - part.index();
    const bool connects = part.links().self().process < part.entryOf(other).process;
    if (connects) {
      EXPECT_TRUE(eventually([&] { return part.stage().word[0].load() == 1; }));
      ::kill(part.pidOf(other), SIGSTOP);
      EXPECT_TRUE(eventually([&] { return std::string(processState(part.pidOf(other))) == "is stopped"; }));
      EXPECT_FALSE(part.links().reach(part.entryOf(other), Deadline::in(100ms), {}));
      EXPECT_FALSE(part.links().reach(part.entryOf(other), Deadline::in(100ms), {}));
      ::kill(part.pidOf(other), SIGCONT);
    } else {
      // The sentinel runs already, as it does when this is not the first communicator.
      EXPECT_FALSE(part.links().reach(part.entryOf(other), Deadline::in(10ms), {}));
      part.stage().word[0].store(1);
    }
    Peer* peer = part.linked(other);
    ASSERT_TRUE(peer);
    part.meet(1);
    EXPECT_FALSE(peer->gone());
    part.meet(2);
  });
}

TEST(Links, WhatInterruptsAWaitIsWhatItReturns) {
  perform(2, [](Part& part) {
    part.publish();
    const ProcessEntry other = part.entryOf(1 - part.index());
    if (part.index() == 0) {
      for (const Code code : {Code::aborted, Code::dead, Code::timeout}) {
        int asked = 0;
        Result<Peer*> none = part.links().reach(other, late(), [&]() -> Status {
          if (++asked < 3) return {};
          return Error(code, "enough");
        });
        ASSERT_FALSE(none);
        EXPECT_EQ(none.error().code(), code);
        EXPECT_NE(none.error().message().find("enough"), std::string::npos) << none.error().message();
      }
    }
    part.meet(0);
  });
}

TEST(Links, AProcessThatEndedBeforeItWasLinkedIsNamed) {
  for (int quitter = 0; quitter < 2; ++quitter) {
    perform(2, [&](Part& part) {
      part.publish();
      const ProcessEntry other = part.entryOf(1 - part.index());
      part.meet(0);
      if (part.index() == quitter) return;
      Result<Peer*> none = part.links().reach(other, late(), {});
      ASSERT_FALSE(none);
      EXPECT_EQ(none.error().code(), Code::dead);
      EXPECT_NE(none.error().message().find("pid " + std::to_string(part.pidOf(quitter)) + " is gone"),
                std::string::npos)
          << none.error().message();
    });
  }
}

}  // namespace
}  // namespace symccl::testing_links
