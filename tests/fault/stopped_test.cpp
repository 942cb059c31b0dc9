// Ranks that are stopped: an error at the deadline, which says so; none if they go on in time.

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

}  // namespace
}  // namespace symccl::test
