// Who drives: waiting threads, the worker, callbacks; several threads and several lanes.
#include <sys/resource.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "lanes.hpp"

namespace symccl::test {
namespace {

using std::chrono::milliseconds;

/// Counts down; a thread waits for zero.
class Latch {
 public:
  explicit Latch(int count) : count_(count) {}
  void down() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) zero_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    zero_.wait(lock, [&] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable zero_;
  int count_;
};

TEST(DrivingTest, MessagesEndWithoutAnyoneWaiting) {
  Lanes lanes(2);
  for (std::size_t bytes : {std::size_t{8}, std::size_t{3000}, std::size_t{2000000}}) {
    Buffer out(bytes), in(bytes);
    out.fill(bytes);
    Latch latch(2);
    const auto count = [&](const Status& status) {
      EXPECT_TRUE(succeeded(status));
      latch.down();
    };
    lanes.recv(1, in.data(), bytes, 0, 0)->onDone(count);
    lanes.send(0, out.data(), bytes, 1, 0)->onDone(count);
    latch.wait();
    EXPECT_TRUE(in.holds(bytes, bytes));
  }
}

TEST(DrivingTest, CallbacksMayIssueAndWait) {
  Lanes lanes(2);
  int first = 1, second = 2, third = 3;
  int in[3] = {};
  Latch latch(1);
  const RequestPtr receive = lanes.recv(1, &in[0], 4, 0, 0);
  receive->onDone([&](const Status&) {
    EXPECT_TRUE(ends(lanes.recv(1, &in[1], 4, 0, 1)));
    lanes.recv(1, &in[2], 4, 0, 2)->onDone([&](const Status&) { latch.down(); });
  });
  for (auto [value, tag] : {std::pair{&first, 0}, {&second, 1}, {&third, 2}})
    EXPECT_TRUE(ends(lanes.send(0, value, 4, 1, tag)));
  latch.wait();
  EXPECT_EQ(in[0], 1);
  EXPECT_EQ(in[1], 2);
  EXPECT_EQ(in[2], 3);
}

TEST(DrivingTest, ACallbackMayDestroyTheLane) {
  for (bool waits : {false, true}) {
    Lanes lanes(2);
    int out = 4, in = 0;
    Latch latch(1);
    const RequestPtr other = lanes.recv(1, &in, 4, 0, 9);
    const RequestPtr receive = lanes.recv(1, &in, 4, 0, 0);
    receive->onDone([&](const Status&) {
      lanes.take(1).reset();
      latch.down();
    });
    EXPECT_TRUE(ends(lanes.send(0, &out, 4, 1, 0)));
    if (waits) {
      EXPECT_TRUE(ends(receive));
    }
    latch.wait();
    EXPECT_TRUE(failsWith(other->wait(Deadline::never()), Code::destroyed, {}));
  }
}

TEST(DrivingTest, SeveralThreadsOnOneLane) {
  constexpr int kThreads = 4, kRounds = 200;
  Lanes lanes(2);
  onRanks(2 * kThreads, [&](int thread) {
    const int rank = thread % 2, tag = thread / 2;
    for (int round = 0; round < kRounds; ++round) {
      const std::size_t bytes = round % 10 == 9 ? 20000 : 16;
      Buffer out(bytes), in(bytes);
      out.fill(static_cast<std::size_t>(round * 16 + thread));
      const RequestPtr send = lanes.send(rank, out.data(), bytes, 1 - rank, tag);
      EXPECT_TRUE(ends(lanes.recv(rank, in.data(), bytes, 1 - rank, tag)));
      EXPECT_TRUE(ends(send));
      ASSERT_TRUE(in.holds(static_cast<std::size_t>(round * 16 + (thread ^ 1)), bytes));
    }
  });
}

TEST(DrivingTest, AWaitingThreadTakesOverFromTheWorkerAndFromAThreadThatLeaves) {
  Lanes lanes(2);
  int in[3] = {}, out[3] = {7, 8, 9};
  const RequestPtr first = lanes.recv(1, &in[0], 4, 0, 0);
  std::this_thread::sleep_for(milliseconds(5));  // the worker has it and sleeps
  const RequestPtr second = lanes.recv(1, &in[1], 4, 0, 1);
  const RequestPtr third = lanes.recv(1, &in[2], 4, 0, 2);
  std::thread a([&] { EXPECT_TRUE(ends(first)); });
  std::thread b([&] { EXPECT_TRUE(ends(second)); });
  std::thread c(
      [&] { EXPECT_TRUE(failsWith(third->wait(Deadline::in(milliseconds(20))), Code::timeout, {"goes on"})); });
  for (int tag : {0, 1}) {
    std::this_thread::sleep_for(milliseconds(5));
    EXPECT_TRUE(ends(lanes.send(0, &out[tag], 4, 1, tag)));
  }
  a.join();
  b.join();
  c.join();
  EXPECT_TRUE(ends(lanes.send(0, &out[2], 4, 1, 2)));
  EXPECT_TRUE(ends(third));
  EXPECT_EQ(in[0] * 100 + in[1] * 10 + in[2], 789);
}

TEST(DrivingTest, TwoLanesProgressTogether) {
  Lanes one(2), two(2);
  onRanks(2, [&](int rank) {
    constexpr std::size_t kBytes = 700000;
    Buffer out(kBytes), in1(kBytes), in2(kBytes);
    out.fill(static_cast<std::size_t>(rank));
    // Each waits first for the lane that the other waits for last.
    const RequestPtr sends[] = {one.send(rank, out.data(), kBytes, 1 - rank, 0),
                                two.send(rank, out.data(), kBytes, 1 - rank, 0)};
    const RequestPtr receives[] = {one.recv(rank, in1.data(), kBytes, 1 - rank, 0),
                                   two.recv(rank, in2.data(), kBytes, 1 - rank, 0)};
    EXPECT_TRUE(ends(receives[rank]));
    EXPECT_TRUE(ends(sends[1 - rank]));
    EXPECT_TRUE(ends(receives[1 - rank]));
    EXPECT_TRUE(ends(sends[rank]));
    EXPECT_TRUE(in1.holds(static_cast<std::size_t>(1 - rank), kBytes));
    EXPECT_TRUE(in2.holds(static_cast<std::size_t>(1 - rank), kBytes));
  });
}

std::chrono::microseconds cpuTime() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

TEST(DrivingTest, WaitingCostsNoCpu) {
  Lanes lanes(2);
  int value = 0, out = 1;
  const RequestPtr worker = lanes.recv(0, &value, 4, 1, 0);
  const RequestPtr thread = lanes.recv(1, &value, 4, 0, 0);
  std::thread waiting([&] { EXPECT_TRUE(ends(thread)); });
  std::this_thread::sleep_for(milliseconds(100));
  const auto before = cpuTime();
  const auto start = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(milliseconds(600));
  const auto used = cpuTime() - before;
  const auto passed = std::chrono::steady_clock::now() - start;
  EXPECT_LT(used * 20, passed) << used.count() << " us of CPU";
  EXPECT_TRUE(ends(lanes.send(0, &out, 4, 1, 0)));
  EXPECT_TRUE(ends(lanes.send(1, &out, 4, 0, 0)));
  EXPECT_TRUE(ends(worker));
  waiting.join();
}

TEST(DrivingTest, FencesMode) {
  GroupOptions options;
  options.fences = true;
  Lanes lanes(2, options);
  onRanks(2, [&](int rank) {
    for (int round = 0; round < 300; ++round) {
      const std::size_t bytes = round % 3 == 0 ? 5000 : 8;
      Buffer out(bytes), in(bytes);
      out.fill(static_cast<std::size_t>(round));
      // Long enough, now and then, for the other side to fall asleep.
      if (round % 50 == rank) std::this_thread::sleep_for(std::chrono::microseconds(700));
      const RequestPtr send = lanes.send(rank, out.data(), bytes, 1 - rank, 0);
      EXPECT_TRUE(ends(lanes.recv(rank, in.data(), bytes, 1 - rank, 0)));
      EXPECT_TRUE(ends(send));
      ASSERT_TRUE(in.holds(static_cast<std::size_t>(round), bytes));
    }
  });
}

TEST(DrivingTest, SleepersAreWokenByRecords) {
  Lanes lanes(2);
  onRanks(2, [&](int rank) {
    for (int round = 0; round < 40; ++round) {
      // Longer than a waiter polls and yields: whoever waits is asleep when the message comes.
      const std::size_t bytes = round % 2 == 0 ? 8 : 300000;
      Buffer buffer(bytes);
      if (round % 2 == rank) {
        std::this_thread::sleep_for(std::chrono::microseconds(600));
        buffer.fill(static_cast<std::size_t>(round));
        EXPECT_TRUE(ends(lanes.send(rank, buffer.data(), bytes, 1 - rank, 0)));
      } else {
        EXPECT_TRUE(ends(lanes.recv(rank, buffer.data(), bytes, 1 - rank, 0)));
        ASSERT_TRUE(buffer.holds(static_cast<std::size_t>(round), bytes));
      }
    }
  });
}

}  // namespace
}  // namespace symccl::test
