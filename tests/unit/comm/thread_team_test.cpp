// The threads that help with large operations.
#include "collectives/thread_team.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace symccl {
namespace {

TEST(ThreadTeam, EveryPartOnce) {
  ThreadTeam team;
  for (int round = 0; round < 300; ++round) {
    for (const int parts : {0, 1, 2, 5, 9}) {
      std::vector<int> times(static_cast<std::size_t>(parts));  // plain: the team orders the parts before its return
      team.run(parts, [&](int part) { ++times[static_cast<std::size_t>(part)]; });
      EXPECT_EQ(times, std::vector<int>(static_cast<std::size_t>(parts), 1));
    }
  }
}

TEST(ThreadTeam, PartsRunAtOnce) {
  ThreadTeam team;
  std::atomic<int> inside{0};
  std::set<std::thread::id> threads;
  std::mutex mutex;
  team.run(4, [&](int) {
    ++inside;
    // Nobody leaves before all four are in, which takes four threads.
    for (int i = 0; i < 30'000 && inside < 4; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(inside, 4);
  EXPECT_EQ(threads.size(), 4u);
}

TEST(ThreadTeam, WhoFindsItBusyWorksAlone) {
  ThreadTeam team;
  std::vector<std::thread> callers;
  std::atomic<int> all{0};
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        std::atomic<int> mine{0};
        team.run(3, [&](int part) { mine += part + 1; });
        all += mine;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(all, 4 * 200 * 6);
}

TEST(ThreadTeam, AForkedChildWorksAlone) {
  ThreadTeam& team = *new ThreadTeam;  // the child has none of its threads to join
  std::atomic<int> sum{0};
  const auto add = [&](int part) { sum += part; };
  team.run(3, add);
  EXPECT_EQ(sum, 3);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    team.run(4, add);
    ::_exit(sum == 9 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace symccl
