// Ranks that are stopped, slow, or leave early: what is an error, what is not, and who is named.

#include "fault/survivors.hpp"
#include "fault/tripwire.hpp"

namespace symccl::test {
namespace {

constexpr int kVictim = 1;

Operation sumOf(Buffer& buffer, std::size_t count) {
  return Operation::allReduce(buffer.data(), buffer.data(), count, DataType::int32, ReduceOp::sum);
}

void expectStopped(const Status& status, const RankProcess& process) {
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::timeout) << status.error().message();
  EXPECT_EQ(status.error().rank(), kVictim) << status.error().message();
  EXPECT_CONTAINS(status.error().message(), process.nameOf(kVictim) + " is stopped");
}

// It stops at the given place of the operation; the others' deadline passes, and names it. Later it learns of that.
void stopIn(Memory memory, std::size_t count, bool beforeTheCall) {
  onProcesses(3, [=](RankProcess& process) {
    auto comm = process.join();
    const auto pool = poolFor(*comm, memory);
    Buffer buffer(count * sizeof(std::int32_t), pool);
    ASSERT_OK(comm->run(sumOf(buffer, count)));
    process.meet(0);
    if (process.rank() == kVictim) {
      Status status;
      if (beforeTheCall) {
        ::kill(::getpid(), SIGSTOP);
        status = comm->run(sumOf(buffer, count));
      } else {
        Tripwire wire(buffer.as<std::int32_t>() + count / 2, [] { ::kill(::getpid(), SIGSTOP); });
        status = comm->run(sumOf(buffer, count));
      }
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), Code::timeout) << status.error().message();
    } else {
      if (beforeTheCall) process.awaitState(kVictim, "is stopped");
      expectStopped(comm->run(sumOf(buffer, count), {700ms}), process);
      process.meet(1, 2);
      if (process.rank() == 0) process.signal(kVictim, SIGCONT);
    }
    process.meet(2);
    goOn(process, comm, {0, 1, 2});
  });
}

TEST(Stopped, BeforeItCalls) { stopIn(Memory::unregistered, 4, true); }
TEST(Stopped, InTheMiddleOfStagedSlices) { stopIn(Memory::unregistered, 1 << 20, false); }

// There it may be at the others' buffers: they wait a moment for it, then return.
TEST(Stopped, InTheMiddleOfAZeroCopy) { stopIn(Memory::registered, 1 << 20, false); }

// The memory of an operation that a stopped rank is still in is not handed out again.
TEST(Stopped, MemoryThatItMayStillWriteIsKept) {
  onProcesses(2, [=](RankProcess& process) {
    constexpr std::size_t kCount = 4 << 20;
    auto comm = process.join();
    const auto pool = poolFor(*comm, Memory::registered);
    auto* data = static_cast<std::int32_t*>(*pool->allocate(kCount * sizeof(std::int32_t)));
    const Operation sum = Operation::allReduce(data, data, kCount, DataType::int32, ReduceOp::sum);
    process.meet(0);
    if (process.rank() == kVictim) {
      Tripwire wire(data + kCount * 3 / 4, [] { ::kill(::getpid(), SIGSTOP); });
      EXPECT_FALSE(comm->run(sum));
      process.meet(1);
      return;
    }
    expectStopped(comm->run(sum, {500ms}), process);
    pool->free(data);
    pool->trim();
    auto* other = static_cast<std::int32_t*>(*pool->allocate(kCount * sizeof(std::int32_t)));
    std::memset(other, 0x5a, kCount * sizeof(std::int32_t));
    process.signal(kVictim, SIGCONT);
    process.meet(1);  // it has left the operation
    std::size_t changed = 0;
    for (std::size_t i = 0; i < kCount; ++i) changed += other[i] != 0x5a5a5a5a;
    EXPECT_EQ(changed, 0u);
  });
}

TEST(Stopped, InMessages) {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{3000017}}) {
    onProcesses(2, [=](RankProcess& process) {
      auto comm = process.join();
      Buffer buffer(bytes, nullptr);
      process.meet(0);
      if (process.rank() == kVictim) {
        ::kill(::getpid(), SIGSTOP);
        const Status status = comm->send(buffer.data(), bytes, 0).wait();
        EXPECT_TRUE(status || status.error().code() == Code::timeout);
      } else {
        process.awaitState(kVictim, "is stopped");
        expectStopped(comm->recv(buffer.data(), bytes, kVictim, 0, {300ms}).wait(), process);
        process.signal(kVictim, SIGCONT);
      }
      process.meet(1);
    });
  }
}

// Continued before the deadline, as by a debugger: nothing has happened.
TEST(Stopped, ButGoesOnInTime) {
  for (const Memory memory : {Memory::unregistered, Memory::registered}) {
    onProcesses(3, [=](RankProcess& process) {
      constexpr std::size_t kCount = 1 << 20;
      const auto comm = process.join();
      const auto pool = poolFor(*comm, memory);
      Buffer buffer(kCount * sizeof(std::int32_t), pool);
      auto* data = buffer.as<std::int32_t>();
      for (std::size_t i = 0; i < kCount; ++i) data[i] = element(process.rank(), i);
      if (process.rank() == kVictim) {
        Tripwire wire(data + kCount / 2, [] { ::kill(::getpid(), SIGSTOP); });
        EXPECT_OK(comm->run(sumOf(buffer, kCount)));
      } else {
        std::thread waker([&] {
          if (process.rank() != 0) return;
          process.awaitState(kVictim, "is stopped");
          std::this_thread::sleep_for(200ms);
          process.signal(kVictim, SIGCONT);
        });
        EXPECT_OK(comm->run(sumOf(buffer, kCount)));
        waker.join();
      }
      for (std::size_t i = 0; i < kCount; ++i)
        ASSERT_EQ(data[i], element(0, i) + element(1, i) + element(2, i)) << "element " << i;
      process.meet(0);
    });
  }
}

// --- ranks that leave -----------------------------------------------------------------------------------------------

// A rank that exits after its last call does not break a slower one, which is still in it.
TEST(Leaving, ExitAfterTheLastOperation) {
  for (const bool destroys : {false, true}) {
    onProcesses(3, [=](RankProcess& process) {
      constexpr std::size_t kCount = 1 << 18;  // one staged slice: no rank waits for the last copies of another
      auto comm = process.join();
      Buffer in(kCount * sizeof(std::int32_t), nullptr), out(3 * kCount * sizeof(std::int32_t), nullptr);
      for (std::size_t i = 0; i < kCount; ++i) in.as<std::int32_t>()[i] = element(process.rank(), i);
      const Operation gather = Operation::allGather(in.data(), out.data(), kCount, DataType::int32);
      if (process.rank() == 2) {
        // What it gets from rank 0 it copies when the others have left.
        Tripwire wire(out.as<std::int32_t>() + kCount / 2, [&] {
          process.awaitState(0, "is gone");
          process.awaitState(1, "is gone");
        });
        EXPECT_OK(comm->run(gather));
      } else {
        EXPECT_OK(comm->run(gather));
      }
      for (std::size_t i = 0; i < 3 * kCount; ++i)
        ASSERT_EQ(out.as<std::int32_t>()[i], element(static_cast<int>(i / kCount), i % kCount)) << "element " << i;
      if (process.rank() == 2) {
        const Status status = comm->run(Operation::barrier());
        ASSERT_FALSE(status) << "this one needs them";
        EXPECT_TRUE(status.error().code() == (destroys ? Code::destroyed : Code::dead)) << status.error().message();
      } else if (!destroys) {
        new std::shared_ptr<Communicator>(comm);  // to the end of the process
      }
    });
  }
}

// Its area must not be used again while another rank is still at it.
TEST(Leaving, DestroyAndCreateWhileAPeerIsStillInside) {
  onProcesses(2, [](RankProcess& process) {
    constexpr std::size_t kCount = 1 << 18;
    auto comm = process.join("first");
    auto other = process.join("other");
    Buffer in(kCount * sizeof(std::int32_t), nullptr), out(2 * kCount * sizeof(std::int32_t), nullptr);
    for (std::size_t i = 0; i < kCount; ++i) in.as<std::int32_t>()[i] = element(process.rank(), i);
    const Operation gather = Operation::allGather(in.data(), out.data(), kCount, DataType::int32);
    if (process.rank() == 1) {
      Tripwire wire(out.as<std::int32_t>() + kCount / 2, [&] { process.meet(0); });
      EXPECT_OK(comm->run(gather));
    } else {
      EXPECT_OK(comm->run(gather));
      comm.reset();
      // Would take the place of the area, zero it, and write to its staging, if it could.
      auto alone = Communicator::create(process.store(), 0, 1, {"alone", 60s});
      ASSERT_TRUE(alone);
      std::vector<std::shared_ptr<Communicator>> more;
      for (int i = 0; i < 3; ++i) {
        auto split = (*alone)->split(0, 0, {"split " + std::to_string(i), 60s});
        ASSERT_TRUE(split);
        more.push_back(*split);
      }
      process.meet(0);
    }
    for (std::size_t i = 0; i < 2 * kCount; ++i)
      ASSERT_EQ(out.as<std::int32_t>()[i], element(static_cast<int>(i / kCount), i % kCount)) << "element " << i;
    EXPECT_OK(other->run(Operation::barrier()));
  });
}

TEST(Leaving, DestroyWhilePeersWait) {
  onProcesses(3, [](RankProcess& process) {
    auto comm = process.join();
    ASSERT_OK(comm->run(Operation::barrier()));
    if (process.rank() == kVictim) {
      process.meet(0);
      std::this_thread::sleep_for(50ms);
      comm.reset();
      process.meet(1);
    } else {
      const Request request = comm->start(Operation::barrier());
      process.meet(0);
      const Status status = request.wait();
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), Code::destroyed);
      EXPECT_CONTAINS(status.error().message(), "rank 1 destroyed its end");
      process.meet(1);
    }
    EXPECT_OK(process.join("again")->run(Operation::barrier()));
    process.meet(2);
  });
}

// --- abort ----------------------------------------------------------------------------------------------------------

TEST(Abort, ByAnotherProcessEndsAWaitAndACopy) {
  for (const bool inTheCopy : {false, true}) {
    onProcesses(3, [=](RankProcess& process) {
      constexpr std::size_t kCount = 1 << 20;
      auto comm = process.join();
      const auto pool = poolFor(*comm, Memory::registered);
      Buffer buffer(kCount * sizeof(std::int32_t), pool);
      ASSERT_OK(comm->run(sumOf(buffer, kCount)));
      if (process.rank() == kVictim) {
        if (inTheCopy) {
          Tripwire wire(buffer.as<std::int32_t>() + kCount / 2, [&] { comm->abort("enough"); });
          EXPECT_FALSE(comm->run(sumOf(buffer, kCount)));
        } else {
          process.meet(0);
          comm->abort("enough");
        }
        EXPECT_CONTAINS(comm->status().error().message(), "enough");
      } else {
        const Request request = comm->start(sumOf(buffer, kCount));
        if (!inTheCopy) process.meet(0);
        const Status status = request.wait();
        ASSERT_FALSE(status);
        EXPECT_EQ(status.error().code(), Code::aborted);
        EXPECT_CONTAINS(status.error().message(), "rank 1 aborted the communicator");
      }
      process.meet(1);
      goOn(process, comm, {0, 1, 2});
    });
  }
}

}  // namespace
}  // namespace symccl::test
