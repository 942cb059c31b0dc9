// A rank is killed while messages are on their way, in each of their forms.

#include <deque>

#include "fault/survivors.hpp"
#include "fault/tripwire.hpp"

namespace symccl::test {
namespace {

constexpr int kVictim = 1;
const std::vector<int> kSurvivors{0, 2};

// One size for each form: in the record, eager, in place or through a pipe.
struct Form {
  const char* name;
  std::size_t bytes;
  Memory memory;
};
constexpr Form kInline{"inline", 40, Memory::unregistered}, kEager{"eager", 4000, Memory::unregistered},
    kLocated{"located", 3000017, Memory::registered}, kOnDemand{"onDemand", 3000017, Memory::unregistered};

class DeathInMessages : public testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(Forms, DeathInMessages, testing::Values(kInline, kEager, kLocated, kOnDemand),
                         [](const auto& form) { return form.param.name; });

void fill(Buffer& buffer, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) buffer.as<unsigned char>()[i] = static_cast<unsigned char>(i * 7 + i / 256);
}
bool filled(Buffer& buffer, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (buffer.as<unsigned char>()[i] != static_cast<unsigned char>(i * 7 + i / 256)) return false;
  }
  return true;
}

// The receiver waits, the sender dies before it sends.
TEST_P(DeathInMessages, OfTheSenderBeforeItSends) {
  const Form form = GetParam();
  const auto body = [form](RankProcess& process) {
    auto comm = process.join();
    Buffer buffer(form.bytes, poolFor(*comm, form.memory));
    if (process.rank() == 0) {
      const Request request = comm->recv(buffer.data(), form.bytes, kVictim, 5);
      process.meet(0);
      expectGone(request.wait(), process, kVictim);
      EXPECT_CONTAINS(request.wait().error().message(), "recv from rank 1 (tag 5");
    } else {
      process.meet(0);
      if (process.rank() == kVictim) {
        std::this_thread::sleep_for(50ms);
        die();
      }
      expectGone(comm->run(Operation::barrier()), process, kVictim);
    }
    goOn(process, comm, kSurvivors);
  };
  onProcesses(3, body, {kVictim});
}

// The sender waits for a receiver that dies before it receives. Small messages leave at once: then it is the next call
// that says so.
TEST_P(DeathInMessages, OfTheReceiverBeforeItReceives) {
  const Form form = GetParam();
  const auto body = [form](RankProcess& process) {
    auto comm = process.join();
    Buffer buffer(form.bytes, poolFor(*comm, form.memory));
    process.meet(0);
    if (process.rank() == kVictim) {
      std::this_thread::sleep_for(50ms);
      die();
    }
    if (process.rank() == 0) {
      Status status;
      while (status) status = comm->send(buffer.data(), form.bytes, kVictim, 5).wait();
      expectGone(status, process, kVictim);
    } else {
      expectGone(comm->run(Operation::barrier()), process, kVictim);
    }
    goOn(process, comm, kSurvivors);
  };
  onProcesses(3, body, {kVictim});
}

/// A message whose sender has gone: received whole, or an error that names it; then nothing more comes.
void expectWholeOrGone(RankProcess& process, Communicator& comm, Buffer& buffer, const Form& form,
                       const Status& status) {
  if (status) {
    EXPECT_TRUE(filled(buffer, form.bytes));
    expectGone(comm.recv(buffer.data(), form.bytes, kVictim, 5).wait(), process, kVictim);
  } else {
    expectGone(status, process, kVictim);
  }
}

// What was sent before the sender died, and needs it no more, is received.
TEST_P(DeathInMessages, OfTheSenderAfterItHasSent) {
  const Form form = GetParam();
  const auto body = [form](RankProcess& process) {
    auto comm = process.join();
    Buffer buffer(form.bytes, poolFor(*comm, form.memory));
    if (process.rank() == kVictim) {
      fill(buffer, form.bytes);
      const Request request = comm->send(buffer.data(), form.bytes, 0, 5);
      if (form.bytes <= 4096) {
        ASSERT_OK(request.wait());
      }
      std::this_thread::sleep_for(50ms);  // the record is in the ring
      die();
    }
    if (process.rank() == 0) {
      process.awaitState(kVictim, "is gone");
      const Status status = comm->recv(buffer.data(), form.bytes, kVictim, 5).wait();
      EXPECT_TRUE(status || form.bytes > 4096) << status.error().message();
      expectWholeOrGone(process, *comm, buffer, form, status);
    } else {
      expectGone(comm->run(Operation::barrier()), process, kVictim);
    }
    goOn(process, comm, kSurvivors);
  };
  onProcesses(3, body, {kVictim});
}

class DeathInLargeMessages : public DeathInMessages {};
INSTANTIATE_TEST_SUITE_P(Forms, DeathInLargeMessages, testing::Values(kLocated, kOnDemand),
                         [](const auto& form) { return form.param.name; });

// Rank 0 receives and is half through when the sender goes.
TEST_P(DeathInLargeMessages, OfTheSenderInTheMiddle) {
  const Form form = GetParam();
  const auto body = [form](RankProcess& process) {
    auto comm = process.join();
    Buffer buffer(form.bytes, poolFor(*comm, form.memory));
    process.meet(0);
    if (process.rank() == kVictim) {
      fill(buffer, form.bytes);
      (void)comm->send(buffer.data(), form.bytes, 0, 5).wait();
      for (;;) ::pause();
    }
    if (process.rank() == 0) {
      Tripwire wire(buffer.as<std::byte>() + form.bytes / 2, [&] {
        process.signal(kVictim, SIGKILL);
        process.awaitState(kVictim, "is gone");
      });
      const Status status = comm->recv(buffer.data(), form.bytes, kVictim, 5).wait();
      expectWholeOrGone(process, *comm, buffer, form, status);
    } else {
      expectGone(comm->run(Operation::barrier()), process, kVictim);
    }
    goOn(process, comm, kSurvivors);
  };
  onProcesses(3, body, {kVictim});
}

// Rank 0 sends and the receiver dies half through.
TEST_P(DeathInLargeMessages, OfTheReceiverInTheMiddle) {
  const Form form = GetParam();
  const auto body = [form](RankProcess& process) {
    auto comm = process.join();
    Buffer buffer(form.bytes, poolFor(*comm, form.memory));
    process.meet(0);
    if (process.rank() == kVictim) {
      Tripwire wire(buffer.as<std::byte>() + form.bytes / 2, die);
      (void)comm->recv(buffer.data(), form.bytes, 0).wait();
    }
    if (process.rank() == 0) {
      expectGone(comm->send(buffer.data(), form.bytes, kVictim).wait(), process, kVictim);
    } else {
      expectGone(comm->run(Operation::barrier()), process, kVictim);
    }
    goOn(process, comm, kSurvivors);
  };
  onProcesses(3, body, {kVictim});
}

// The sender dies while it fills its pipe.
TEST(DeathInPipes, OfTheSenderWhileItFills) {
  const auto body = [](RankProcess& process) {
    auto comm = process.join();
    Buffer buffer(kOnDemand.bytes, nullptr);
    process.meet(0);
    if (process.rank() == kVictim) {
      Tripwire wire(buffer.as<std::byte>() + kOnDemand.bytes / 2, die);
      (void)comm->send(buffer.data(), kOnDemand.bytes, 0).wait();
    }
    if (process.rank() == 0) {
      expectGone(comm->recv(buffer.data(), kOnDemand.bytes, kVictim).wait(), process, kVictim);
    } else {
      expectGone(comm->run(Operation::barrier()), process, kVictim);
    }
    goOn(process, comm, kSurvivors);
  };
  onProcesses(3, body, {kVictim});
}

// The death of a third rank disturbs nobody.
TEST(DeathOfAThird, MessagesOfTheOthersGoOn) {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{4000}, std::size_t{3000017}}) {
    const auto body = [bytes](RankProcess& process) {
      const auto comm = process.join();
      process.meet(0);
      if (process.rank() == kVictim) die();
      process.awaitState(kVictim, "is gone");
      const int peer = 2 - process.rank();
      for (const Memory memory : {Memory::unregistered, Memory::registered}) {
        const auto pool = poolFor(*comm, memory);
        Buffer out(bytes, pool), in(bytes, pool);
        fill(out, bytes);
        for (int round = 0; round < 3; ++round) {
          const Request received = comm->recv(in.data(), bytes, peer, round);
          ASSERT_OK(comm->send(out.data(), bytes, peer, round).wait());
          ASSERT_OK(received.wait());
          EXPECT_TRUE(filled(in, bytes));
        }
      }
      EXPECT_OK(comm->status());
      process.meet(1, 2);
    };
    onProcesses(3, body, {kVictim});
  }
}

// A receive from any source is served by whoever lives; it ends when nobody does.
TEST(DeathOfAThird, AnySourceEndsWithTheLast) {
  const auto body = [](RankProcess& process) {
    auto comm = process.join();
    std::int64_t value = process.rank();
    process.meet(0);
    if (process.rank() == 1) die();
    if (process.rank() == 2) {
      process.awaitState(1, "is gone");
      std::this_thread::sleep_for(50ms);
      ASSERT_OK(comm->send(&value, sizeof value, 0).wait());
      process.meet(1, 2);
      die();
    }
    ASSERT_OK(comm->recv(&value, sizeof value, kAnySource).wait());
    EXPECT_EQ(value, 2);
    process.meet(1, 2);
    const Status status = comm->recv(&value, sizeof value, kAnySource).wait();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::dead) << status.error().message();
    EXPECT_CONTAINS(status.error().message(), "is gone");
    expectSticky(*comm);
  };
  onProcesses(3, body, {1, 2});
}

}  // namespace
}  // namespace symccl::test
