#include "base/fork.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace symccl {
namespace {

std::atomic<int> handled{0};
std::uint64_t generationSeen = 0;
void count() {
  handled.fetch_add(1);
  generationSeen = forkGeneration();
}

/// The exit code of a forked child that runs `body`.
template <class Body>
int inChild(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Fork, GenerationGrowsInChildrenOnly) {
  const std::uint64_t here = forkGeneration();
  const int grown = inChild([&] {
    const auto child = forkGeneration();
    const int grandchild = inChild([&] { return static_cast<int>(forkGeneration() - here); });
    return child == here + 1 ? grandchild : 99;
  });
  EXPECT_EQ(grown, 2);
  EXPECT_EQ(forkGeneration(), here);
}

TEST(Fork, HandlersRunInTheChildOnceAfterTheCount) {
  onForkInChild(count);
  onForkInChild(count);  // a second registration changes nothing
  const std::uint64_t here = forkGeneration();
  EXPECT_EQ(inChild([&] { return generationSeen == here + 1 ? handled.load() : 99; }), 1);
  EXPECT_EQ(handled.load(), 0);
}

TEST(Fork, ItsMutexIsFreeInTheChild) {
  static ForkSafeMutex& mutex = *new ForkSafeMutex;
  std::atomic<bool> stop{false};
  std::thread holder([&] {
    while (!stop) {
      std::lock_guard lock(mutex);
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(inChild([] {
                ::alarm(20);
                std::lock_guard lock(mutex);
                return 7;
              }),
              7);
  }
  stop = true;
  holder.join();
}

}  // namespace
}  // namespace symccl
