// A rank is killed in or between collectives: the others say who, at once, and can go on without it.

#include <cstdio>

#include "fault/survivors.hpp"
#include "fault/tripwire.hpp"

namespace symccl::test {
namespace {

constexpr int kVictim = 1;
const std::vector<int> kSurvivors{0, 2};

Status sum(Communicator& comm, std::int32_t* data, std::size_t count) {
  return comm.run(Operation::allReduce(data, data, count, DataType::int32, ReduceOp::sum));
}

std::int64_t now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

TEST(DeathInCollectives, BeforeTheFirst) {
  const auto body = [](RankProcess& process) {
    auto comm = process.join();
    process.meet(0);
    if (process.rank() == kVictim) die();
    std::vector<std::int32_t> data(100);
    expectGone(sum(*comm, data.data(), data.size()), process, kVictim);
    goOn(process, comm, kSurvivors);
  };
  onProcesses(3, body, {kVictim});
}

// The others have arrived, wait, and sleep.
TEST(DeathInCollectives, WhileTheOthersWaitForItToArrive) {
  for (const std::size_t count : {1u, 500u, 100000u}) {
    const auto body = [count](RankProcess& process) {
      auto comm = process.join();
      std::vector<std::int32_t> data(count);
      ASSERT_OK(sum(*comm, data.data(), count));
      if (process.rank() == kVictim) {
        process.meet(0);
        std::this_thread::sleep_for(100ms);
        process.word(0) = now();
        die();
      }
      const Request request =
          comm->start(Operation::allReduce(data.data(), data.data(), count, DataType::int32, ReduceOp::sum));
      process.meet(0);
      const Status status = request.wait();
      if (process.rank() == 0) std::printf("noticed after %lld ms\n", static_cast<long long>(now() - process.word(0)));
      expectGone(status, process, kVictim);
      goOn(process, comm, kSurvivors);
    };
    onProcesses(3, body, {kVictim});
  }
}

// It dies at a page in the middle of what it reads of its own buffer.
void dieInTheMiddleOf(Memory memory, std::size_t count) {
  const auto body = [memory, count](RankProcess& process) {
    auto comm = process.join();
    const auto pool = poolFor(*comm, memory);
    Buffer buffer(count * sizeof(std::int32_t), pool);
    auto* data = buffer.as<std::int32_t>();
    ASSERT_OK(sum(*comm, data, count));
    if (process.rank() == kVictim) {
      Tripwire wire(data + count / 2, die);
      (void)sum(*comm, data, count);
    }
    expectGone(sum(*comm, data, count), process, kVictim);
    goOn(process, comm, kSurvivors);
  };
  onProcesses(3, body, {kVictim});
}

TEST(DeathInCollectives, InTheMiddleOfALargeZeroCopy) { dieInTheMiddleOf(Memory::registered, 4 << 20); }
TEST(DeathInCollectives, InTheMiddleOfASmallZeroCopy) { dieInTheMiddleOf(Memory::registered, 20000); }
TEST(DeathInCollectives, BetweenStagedSlices) { dieInTheMiddleOf(Memory::unregistered, 4 << 20); }
TEST(DeathInCollectives, InTheOnlyStagedSlice) { dieInTheMiddleOf(Memory::unregistered, 20000); }

// The others are in the middle of copies when it goes: pull and push, split broadcast.
TEST(DeathInCollectives, WhileTheOthersCopy) {
  for (const Kind kind : {Kind::allGather, Kind::allToAll, Kind::broadcast, Kind::reduceScatter}) {
    const auto body = [kind](RankProcess& process) {
      auto comm = process.join();
      const auto pool = poolFor(*comm, Memory::registered);
      constexpr std::size_t kCount = 3 << 20;
      Buffer in(3 * kCount, pool), out(3 * kCount, pool);
      Operation operation;
      operation.kind = kind;
      operation.count = kCount;
      operation.type = DataType::uint8;
      operation.send = in.data();
      operation.recv = out.data();
      if (kind == Kind::broadcast) operation.send = operation.recv;
      ASSERT_OK(comm->run(operation));
      process.meet(0);
      if (process.rank() == kVictim) {
        // Stopped by survivor 0's hand, it does not get on; killed there.
        for (;;) (void)comm->run(operation);
      }
      if (process.rank() == 0) {
        for (int round = 0; round < 3; ++round) ASSERT_OK(comm->run(operation));
        process.stop(kVictim);
        process.signal(kVictim, SIGKILL);
      }
      Status status;
      while (status) status = comm->run(operation);
      expectGone(status, process, kVictim);
      goOn(process, comm, kSurvivors);
    };
    onProcesses(3, body, {kVictim});
  }
}

// Whoever does not wait for the dead rank itself learns of it from those who do.
TEST(DeathInCollectives, EverybodyHasTheSameCulprit) {
  constexpr int kRanks = 6;
  const auto body = [](RankProcess& process) {
    auto comm = process.join();
    process.meet(0);
    if (process.rank() == 4) die();
    const Status status = comm->run(Operation::barrier());
    expectGone(status, process, 4);
    expectSticky(*comm);
  };
  onProcesses(kRanks, body, {4});
}

TEST(DeathInCollectives, OfTwoAtOnce) {
  const auto body = [](RankProcess& process) {
    auto comm = process.join();
    process.meet(0);
    if (process.rank() == 1 || process.rank() == 3) die();
    const Status status = comm->run(Operation::barrier());
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::dead);
    const int culprit = status.error().rank();
    EXPECT_TRUE(culprit == 1 || culprit == 3) << culprit;
    EXPECT_CONTAINS(status.error().message(), process.nameOf(culprit) + " is gone");
    goOn(process, comm, {0, 2});
  };
  onProcesses(4, body, {1, 3});
}

// Queued operations that nobody waits for end too, and tell their callbacks.
TEST(DeathInCollectives, OperationsInTheQueueEnd) {
  const auto body = [](RankProcess& process) {
    auto comm = process.join();
    process.meet(0);
    if (process.rank() == kVictim) {
      std::this_thread::sleep_for(50ms);
      die();
    }
    std::vector<std::vector<std::int32_t>> data(20, std::vector<std::int32_t>(3000));
    std::atomic<int> told{0};
    std::vector<Request> requests;
    for (auto& each : data) {
      requests.push_back(
          comm->start(Operation::allReduce(each.data(), each.data(), each.size(), DataType::int32, ReduceOp::sum)));
      requests.back().onDone([&](const Status& status) { told += status ? 100 : 1; });
    }
    EXPECT_TRUE(eventually([&] { return told == 20; }));
    for (const Request& request : requests) expectGone(request.wait(), process, kVictim);
    goOn(process, comm, kSurvivors);
  };
  onProcesses(3, body, {kVictim});
}

// More than 16 ranks arrive through the lines of leaders: of ranks 0 and 16 here.
TEST(DeathInCollectives, OfLeadersAndTheirMembers) {
  constexpr int kRanks = 18;
  for (const int victim : {5, 16, 17}) {
    const auto body = [=](RankProcess& process) {
      auto comm = process.join();
      std::vector<std::int32_t> data(1025);
      ASSERT_OK(sum(*comm, data.data(), data.size()));
      process.meet(0);
      if (process.rank() == victim) die();
      expectGone(sum(*comm, data.data(), data.size()), process, victim);
      expectSticky(*comm);
    };
    onProcesses(kRanks, body, {victim});
  }
}

// Two communicators: the death of a member of one does not concern the other.
TEST(DeathInCollectives, OtherGroupsGoOn) {
  const auto body = [](RankProcess& process) {
    auto world = process.join();
    auto split = world->split(process.rank() == kVictim ? 1 : 0, 0, {"rest", 60s});
    ASSERT_TRUE(split);
    process.meet(0);
    if (process.rank() == kVictim) die();
    checkAllKinds(**split, nullptr, 5000, 1);
    expectGone(world->run(Operation::barrier()), process, kVictim);
    checkAllKinds(**split, poolFor(**split, Memory::registered), 300007, 0);
    auto again = (*split)->split(0, -process.rank(), {"rest of the rest", 60s});
    ASSERT_TRUE(again) << again.error().message();
    checkAllKinds(**again, nullptr, 1025, 1);
  };
  onProcesses(3, body, {kVictim});
}

}  // namespace
}  // namespace symccl::test
