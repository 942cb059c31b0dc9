// Every form at every edge of size: bytes, source, counters, and what stays untouched.
#include <sys/mman.h>

#include "lanes.hpp"

namespace symccl::test {
namespace {

const std::size_t kEdges[] = {0,
                              1,
                              39,
                              40,
                              41,
                              127,
                              4095,
                              4096,
                              4097,
                              65537,
                              256 * 1024 - 1,
                              256 * 1024,
                              256 * 1024 + 1,
                              512 * 1024 - 1,
                              512 * 1024,
                              512 * 1024 + 1,
                              3 * 1024 * 1024 + 7};

/// Which member of MessageCounters a send of this size should have used.
std::uint64_t MessageCounters::* formOf(std::size_t bytes, bool located) {
  if (bytes <= 40) return &MessageCounters::inlined;
  if (located) return &MessageCounters::located;
  return bytes <= 4096 ? &MessageCounters::eager : &MessageCounters::onDemand;
}

class FormsOfEverySize : public testing::TestWithParam<std::tuple<bool, bool, bool>> {};

TEST_P(FormsOfEverySize, Arrive) {
  const auto [sendLocated, recvLocated, otherMapping] = GetParam();
  GroupOptions options;
  options.otherMapping = otherMapping;
  Lanes lanes(2, options);
  std::size_t total = 0, seed = 1;
  MessageCounters expected;
  for (std::size_t bytes : kEdges) {
    Buffer out = makeBuffer(lanes, bytes, sendLocated);
    Buffer in = makeBuffer(lanes, bytes + 3, recvLocated);
    out.fill(++seed);
    onRanks(2, [&](int rank) {
      if (rank == 0) {
        EXPECT_TRUE(ends(lanes.send(0, out.data(), bytes, 1, 5)));
      } else {
        const RequestPtr request = lanes.recv(1, in.data(), bytes + 3, 0, 5);
        EXPECT_TRUE(ends(request));
        EXPECT_EQ(request->bytes(), bytes);
        EXPECT_EQ(request->source(), 0);
      }
    });
    EXPECT_TRUE(in.holds(seed, bytes)) << bytes;
    EXPECT_TRUE(out.holds(seed, bytes)) << bytes;
    total += bytes;
    ++(expected.*formOf(bytes, sendLocated));
  }
  const MessageCounters sent = lanes.lane(0).counters();
  EXPECT_EQ(sent.sends, std::size(kEdges));
  EXPECT_EQ(sent.sentBytes, total);
  EXPECT_EQ(sent.inlined, expected.inlined);
  EXPECT_EQ(sent.eager, expected.eager);
  EXPECT_EQ(sent.located, expected.located);
  EXPECT_EQ(sent.onDemand, expected.onDemand);
  const MessageCounters received = lanes.lane(1).counters();
  EXPECT_EQ(received.recvs, std::size(kEdges));
  EXPECT_EQ(received.receivedBytes, total);
  EXPECT_EQ(received.sends, 0u);
}

std::string formsName(const testing::TestParamInfo<std::tuple<bool, bool, bool>>& info) {
  const auto [send, recv, other] = info.param;
  return std::string(send ? "Located" : "Private") + (recv ? "ToLocated" : "ToPrivate") + (other ? "OtherMapping" : "");
}
INSTANTIATE_TEST_SUITE_P(, FormsOfEverySize, testing::Combine(testing::Bool(), testing::Bool(), testing::Bool()),
                         formsName);

TEST(FormsTest, FallsBackToADemandedPipeWhenNoEagerSlotIsFree) {
  Lanes lanes(2);
  constexpr std::size_t kBytes = 1000;
  std::vector<Buffer> out, in;
  std::vector<Message> batch;
  for (std::size_t i = 0; i < 20; ++i) {
    out.emplace_back(kBytes);
    out.back().fill(i);
    batch.push_back({Message::Way::send, out.back().data(), kBytes, 1, static_cast<int>(i), false});
  }
  const std::vector<RequestPtr> sends = lanes.lane(0).start(batch, Deadline::in(std::chrono::seconds(50)));
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(sends[i]->done(), i < 8) << i;
  // The eager ones are buffered: their memory may change now.
  for (std::size_t i = 0; i < 8; ++i) out[i].fill(99);
  std::vector<RequestPtr> receives;
  for (std::size_t i = 0; i < 20; ++i) {
    in.emplace_back(kBytes);
    receives.push_back(lanes.recv(1, in.back().data(), kBytes, 0, static_cast<int>(19 - i)));
  }
  for (std::size_t i = 0; i < 20; ++i) EXPECT_TRUE(ends(receives[i]));
  for (std::size_t i = 0; i < 20; ++i) EXPECT_TRUE(in[i].holds(19 - i, kBytes)) << i;
  for (const RequestPtr& send : sends) EXPECT_TRUE(ends(send));
  EXPECT_EQ(lanes.lane(0).counters().eager, 8u);
  EXPECT_EQ(lanes.lane(0).counters().onDemand, 12u);
  // The slots are free again, all of them, each time.
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < 8; ++i) EXPECT_TRUE(lanes.send(0, out[i].data(), kBytes, 1, 3)->done()) << i;
    for (std::size_t i = 0; i < 8; ++i) EXPECT_TRUE(ends(lanes.recv(1, in[i].data(), kBytes, 0, 3)));
  }
  EXPECT_EQ(lanes.lane(0).counters().eager, 32u);
}

TEST(FormsTest, BuffersSixtyFourInlineMessagesAndNotOneLess) {
  Lanes lanes(2);
  std::vector<std::uint64_t> values(200);
  // A few that have been received but whose ACKs the receiver keeps back do not count.
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(ends(lanes.send(0, &i, sizeof i, 1, 0)));
    std::uint64_t got = 99;
    EXPECT_TRUE(ends(lanes.recv(1, &got, sizeof got, 0, 0)));
    EXPECT_EQ(got, i);
  }
  // Someone must drain the ring of 32: an open receive that nothing matches.
  const RequestPtr never = lanes.recv(1, values.data(), 8, 0, 777);
  for (int round = 0; round < 2; ++round) {
    std::vector<RequestPtr> sends;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = i * i + 1;
      sends.push_back(lanes.send(0, &values[i], sizeof values[i], 1, 1));
    }
    for (std::size_t i = 0; i < 64; ++i) EXPECT_TRUE(ends(sends[i])) << i;
    EXPECT_FALSE(sends.back()->wait(Deadline::in(std::chrono::milliseconds(20))));
    EXPECT_FALSE(sends.back()->done());
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint64_t got = 0;
      EXPECT_TRUE(ends(lanes.recv(1, &got, sizeof got, 0, 1)));
      EXPECT_EQ(got, i * i + 1);
    }
    for (const RequestPtr& send : sends) EXPECT_TRUE(ends(send));
  }
  EXPECT_FALSE(never->done());
}

TEST(FormsTest, MessagesToOneselfAreLocal) {
  for (int size : {1, 3}) {
    Lanes lanes(size);
    const int self = size - 1;
    std::size_t seed = 10;
    for (std::size_t bytes : kEdges) {
      for (bool sendFirst : {true, false}) {
        Buffer out(bytes);
        Buffer in(bytes);
        out.fill(++seed);
        RequestPtr send, receive;
        if (sendFirst) send = lanes.send(self, out.data(), bytes, self, 2);
        receive = lanes.recv(self, in.data(), bytes, sendFirst ? self : kAnySource, 2);
        if (!sendFirst) send = lanes.send(self, out.data(), bytes, self, 2);
        EXPECT_TRUE(ends(receive));
        EXPECT_TRUE(ends(send));
        EXPECT_EQ(receive->source(), self);
        EXPECT_TRUE(in.holds(seed, bytes)) << bytes;
      }
    }
    EXPECT_EQ(lanes.lane(self).counters().onDemand, 0u);
  }
}

TEST(FormsTest, MoreThanTwoGibibytes) {
#ifdef SYMCCL_THREAD_SANITIZER
  GTEST_SKIP() << "its shadow of so much memory is too large";
#endif
  // One block of memory, mapped again and again, stands for a large buffer.
  constexpr std::size_t kBlock = 16 << 20;
  constexpr std::size_t kBytes = (std::size_t{1} << 31) + kBlock + 4097;
  constexpr std::size_t kSpan = (kBytes + kBlock - 1) / kBlock * kBlock;
  const auto repeated = [&] {
    const FileDescriptor memory(::memfd_create("test", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(memory.get(), kBlock), 0);
    auto* base = static_cast<std::uint8_t*>(
        ::mmap(nullptr, kSpan, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (std::size_t at = 0; at < kSpan; at += kBlock) {
      EXPECT_NE(::mmap(base + at, kBlock, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory.get(), 0), MAP_FAILED);
    }
    return base;
  };
  std::uint8_t* out = repeated();
  std::uint8_t* in = repeated();
  for (std::size_t i = 0; i < kBlock; ++i) out[i] = patternByte(3, i);
  {
    Lanes lanes(2);
    onRanks(2, [&](int rank) {
      if (rank == 0) {
        EXPECT_TRUE(ends(lanes.start(0, {Message::Way::send, out, kBytes, 1, 0, false}, Deadline::never())));
      } else {
        const RequestPtr request = lanes.start(1, {Message::Way::recv, in, kBytes, 0, 0, true}, Deadline::never());
        EXPECT_TRUE(ends(request));
        EXPECT_EQ(request->bytes(), kBytes);
      }
    });
    EXPECT_EQ(lanes.lane(0).counters().sentBytes, kBytes);
  }
  EXPECT_EQ(std::memcmp(in, out, kBlock), 0);
  ::munmap(out, kSpan);
  ::munmap(in, kSpan);
}

}  // namespace
}  // namespace symccl::test
