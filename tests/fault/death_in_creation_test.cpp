// A rank is killed at each step of the creation of a communicator.

#include <unistd.h>

#include "fault/survivors.hpp"
#include "fault/tripwire.hpp"

namespace symccl::test {
namespace {

constexpr int kVictim = 1;

bool isEntryOf(const std::string& key, int rank) { return key.ends_with("/" + std::to_string(rank)); }

void expectNoCreation(RankProcess& process, int size, Code code, const std::vector<std::string>& parts,
                      std::chrono::milliseconds timeout = 60s) {
  const auto comm = process.create({"world", timeout}, size);
  ASSERT_FALSE(comm) << "rank " << process.rank();
  EXPECT_EQ(comm.error().code(), code) << comm.error().message();
  for (const std::string& part : parts) EXPECT_CONTAINS(comm.error().message(), part);
}

void expectDeathNotice(RankProcess& process, int size, int victim) {
  expectNoCreation(process, size, Code::dead, {process.nameOf(victim) + " is gone"});
}

// After a failed creation the process is as good as before.
void makeAnother(RankProcess& process, const std::vector<int>& survivors) {
  const auto place = std::find(survivors.begin(), survivors.end(), process.rank());
  auto fresh = Communicator::create(process.store(), static_cast<int>(place - survivors.begin()),
                                    static_cast<int>(survivors.size()), {"survivors", 60s});
  ASSERT_TRUE(fresh) << fresh.error().message();
  checkAllKinds(**fresh, nullptr, 5000, 1);
}

// Nobody knows of it: only the deadline can end this, and names it.
TEST(DeathInCreation, BeforeItHasCome) {
  const auto body = [](RankProcess& process) {
    if (process.rank() == kVictim) die();
    expectNoCreation(process, 3, Code::timeout, {"rank 1 did not come"}, 500ms);
  };
  onProcesses(3, body, {kVictim});
}

TEST(DeathInCreation, OfTheFirstRankBeforeItsEntry) {
  const auto body = [](RankProcess& process) {
    if (process.rank() == 0) {
      process.store().afterSet = [](const std::string& key) {
        if (key.ends_with("/epoch")) die();
      };
      (void)process.create({"world", 60s});
    }
    expectNoCreation(process, 3, Code::timeout, {"rank 0 did not come"}, 500ms);
  };
  onProcesses(3, body, {0});
}

TEST(DeathInCreation, AfterItsEntryWasPublished) {
  const auto body = [](RankProcess& process) {
    if (process.rank() == kVictim) {
      process.store().afterSet = [](const std::string& key) {
        if (isEntryOf(key, kVictim)) die();
      };
      (void)process.create({"world", 60s});
    }
    expectDeathNotice(process, 3, kVictim);
    makeAnother(process, {0, 2});
  };
  onProcesses(3, body, {kVictim});
}

// The others still wait for a rank that has not come, and may never come.
TEST(DeathInCreation, WhileAnotherRankHasNotCome) {
  for (const int missing : {1, 3}) {
    const auto body = [missing](RankProcess& process) {
      if (process.rank() == missing) {
        process.meet(0, 3);
        return;
      }
      if (process.rank() == 2) {
        process.store().afterSet = [](const std::string& key) {
          if (isEntryOf(key, 2)) die();
        };
      }
      expectDeathNotice(process, 4, 2);
      process.meet(0, 3);
    };
    onProcesses(4, body, {2});
  }
}

TEST(DeathInCreation, WhenItHasReadAllEntries) {
  const auto body = [](RankProcess& process) {
    if (process.rank() == kVictim) {
      process.store().afterGet = [](const std::string& key) {
        if (isEntryOf(key, 2)) die();
      };
    }
    expectDeathNotice(process, 3, kVictim);
    makeAnother(process, {0, 2});
  };
  onProcesses(3, body, {kVictim});
}

// Some links are made, and all wait for those of one rank, which takes its time.
TEST(DeathInCreation, WhileLinksAreMade) {
  const auto body = [](RankProcess& process) {
    constexpr int kSlow = 0, kDying = 2;
    if (process.rank() == kSlow) {
      process.store().afterGet = [&](const std::string& key) {
        if (!isEntryOf(key, 3)) return;
        std::this_thread::sleep_for(100ms);
        process.signal(kDying, SIGKILL);
        process.meet(0, 3);  // the others have noticed
      };
    }
    if (process.rank() == kSlow) {
      const auto comm = process.create({"world", 60s});
      ASSERT_FALSE(comm);
      EXPECT_EQ(comm.error().code(), Code::dead) << comm.error().message();
    } else {
      expectDeathNotice(process, 4, kDying);
      process.meet(0, 3);
    }
    makeAnother(process, {0, 1, 3});
  };
  onProcesses(4, body, {2});
}

// A member that is linked already, from another communicator.
TEST(DeathInCreation, OfALinkedProcess) {
  const auto body = [](RankProcess& process) {
    auto before = process.join("before");
    ASSERT_OK(before->run(Operation::barrier()));
    process.meet(0);
    if (process.rank() == kVictim) die();
    // Which process was to be rank 1 here nobody knows.
    expectNoCreation(process, 3, Code::timeout, {"rank 1 did not come"}, 500ms);
    expectGone(before->run(Operation::barrier()), process, kVictim);
    goOn(process, before, {0, 2});
  };
  onProcesses(3, body, {kVictim});
}

TEST(DeathInCreation, InSplit) {
  const auto body = [](RankProcess& process) {
    auto world = process.join();
    process.meet(0);
    if (process.rank() == kVictim) {
      std::this_thread::sleep_for(50ms);
      die();
    }
    const auto split = world->split(0, 0, {"all", 60s});
    ASSERT_FALSE(split);
    expectGone(split.error(), process, kVictim);
    goOn(process, world, {0, 2});
  };
  onProcesses(3, body, {kVictim});
}

// The store itself goes with the process that serves it.
TEST(DeathInCreation, OfTheProcessThatServesTheStore) {
  const auto body = [](RankProcess& process) {
    const std::string name = "unix:@symccl-test-" + std::to_string(process.pidOf(0));
    if (process.rank() == 0) {
      const auto store = TcpStore::serve(name, 0, "");
      ASSERT_TRUE(store) << store.error().message();
      process.meet(0);
      std::this_thread::sleep_for(100ms);
      die();
    }
    process.meet(0);
    const auto store = TcpStore::connect(name, 0, "", 10s);
    ASSERT_TRUE(store) << store.error().message();
    const auto comm = Communicator::create(**store, process.rank(), 3, {"world", 60s});
    ASSERT_FALSE(comm);
    EXPECT_EQ(comm.error().code(), Code::dead) << comm.error().message();
    EXPECT_CONTAINS(comm.error().message(), "creating communicator 'world'");
  };
  onProcesses(3, body, {0});
}

TEST(DeathInCreation, AStoppedRankIsSaidToBeStoppedAtTheDeadline) {
  onProcesses(3, [](RankProcess& process) {
    if (process.rank() == kVictim) {
      process.store().afterSet = [](const std::string& key) {
        if (isEntryOf(key, kVictim)) ::kill(::getpid(), SIGSTOP);
      };
      const auto late = process.create({"world", 60s});
      EXPECT_FALSE(late);
      return;
    }
    const auto comm = process.create({"world", 1s});
    ASSERT_FALSE(comm);
    EXPECT_EQ(comm.error().code(), Code::timeout) << comm.error().message();
    EXPECT_CONTAINS(comm.error().message(), process.nameOf(kVictim) + " is stopped");
    process.meet(0, 2);
    if (process.rank() == 0) process.signal(kVictim, SIGCONT);
  });
}

// A stop that ends in time is no failure.
TEST(DeathInCreation, AStoppedRankThatGoesOnInTimeIsAwaited) {
  onProcesses(3, [](RankProcess& process) {
    if (process.rank() == kVictim) {
      process.store().afterSet = [](const std::string& key) {
        if (isEntryOf(key, kVictim)) ::kill(::getpid(), SIGSTOP);
      };
    }
    if (process.rank() == 0) {
      process.store().afterGet = [&](const std::string& key) {
        if (!isEntryOf(key, 2)) return;
        process.awaitState(kVictim, "is stopped");
        std::thread([&] {
          std::this_thread::sleep_for(200ms);
          process.signal(kVictim, SIGCONT);
        }).detach();
      };
    }
    checkAllKinds(*process.join(), nullptr, 1025, 1);
    process.meet(0);
  });
}

// Nobody is needed any more by others once its own creation has returned.
TEST(DeathInCreation, ARankMayExitRightAfterItsOwn) {
  for (int round = 0; round < 10; ++round) {
    onProcesses(5, [](RankProcess& process) {
      const auto comm = process.join();
      std::int64_t value = process.rank();
      if (process.rank() != 0) {
        ASSERT_OK(comm->send(&value, sizeof value, 0).wait());
        return;
      }
      for (int from = 1; from < 5; ++from) {
        ASSERT_OK(comm->recv(&value, sizeof value, from).wait());
        EXPECT_EQ(value, from);
      }
    });
  }
}

// What fails one fails all, also those who have nothing to do with it.
TEST(DeathInCreation, AFailureOfOneRankIsToldToAll) {
  onProcesses(4, [](RankProcess& process) {
    if (process.rank() == 2) process.set("SYMCCL_HEAP_SIZE", "tiny");
    const auto comm = process.create({"world", 60s});
    ASSERT_FALSE(comm);
    EXPECT_EQ(comm.error().code(), Code::invalid);
    EXPECT_CONTAINS(comm.error().message(), "SYMCCL_HEAP_SIZE is 'tiny'");
    EXPECT_EQ(contains(comm.error().message(), "rank 2 failed"), process.rank() != 2);
  });
}

TEST(DeathInCreation, RanksThatDisagreeAboutTheSizeAreNamed) {
  onProcesses(3, [](RankProcess& process) {
    const auto comm = process.create({"world", 60s}, process.rank() == 1 ? 4 : 3);
    ASSERT_FALSE(comm);
    EXPECT_EQ(comm.error().code(), Code::invalid) << comm.error().message();
    EXPECT_CONTAINS(comm.error().message(), "rank 1");
    EXPECT_CONTAINS(comm.error().message(), "with 4");
  });
}

// A rank that comes late learns what became of the others, and all meet again at the next attempt.
TEST(DeathInCreation, LateRanksLearnOfTheFailureAndMeetAgain) {
  onProcesses(3, [](RankProcess& process) {
    if (process.rank() == 2) process.meet(0);
    const auto comm = process.create({"world", process.rank() == 2 ? 60s : 300ms});
    ASSERT_FALSE(comm);
    EXPECT_EQ(comm.error().code(), Code::timeout);
    EXPECT_CONTAINS(comm.error().message(), "rank 2 did not come");
    if (process.rank() != 2) process.meet(0);
    checkAllKinds(*process.join(), nullptr, 1025, 1);
  });
}

}  // namespace
}  // namespace symccl::test
