// Point-to-point messages among processes, in every form in which they travel.

#include <deque>
#include <map>

#include "process/process_ranks.hpp"
#include "unit/comm/memory_kinds.hpp"

namespace symccl::test {
namespace {

// Around the limits: 40 B in the record, 4 KiB eager, 256 KiB a half of a pipe.
constexpr std::size_t kSizes[] = {0, 1, 40, 41, 4095, 4096, 4097, 262143, 262145, 3000017};

unsigned char byteOf(int from, int to, std::size_t index) {
  return static_cast<unsigned char>(index * 31 + index / 251 + static_cast<std::size_t>(from * 7 + to * 13));
}

// Everybody sends to everybody, itself too, and receives in the opposite order.
void exchangeAll(Communicator& comm, const std::shared_ptr<Pool>& pool, std::size_t bytes) {
  std::deque<Buffer> out, in;
  std::vector<Message> messages;
  const int me = comm.rank(), size = comm.size();
  for (int peer = 0; peer < size; ++peer) {
    auto* data = out.emplace_back(bytes, pool).as<unsigned char>();
    for (std::size_t i = 0; i < bytes; ++i) data[i] = byteOf(me, peer, i);
    messages.push_back({Message::Way::send, data, bytes, peer, peer * 3 + me});
  }
  for (int peer = size - 1; peer >= 0; --peer) {
    auto* data = in.emplace_back(bytes, pool).as<unsigned char>();
    messages.push_back({Message::Way::recv, data, bytes, peer, me * 3 + peer, true});
  }
  const auto requests = comm.start(messages);
  for (const Request& request : requests) ASSERT_OK(request.wait());
  for (int peer = 0; peer < size; ++peer) {
    const auto index = static_cast<std::size_t>(size - 1 - peer);
    EXPECT_EQ(requests[static_cast<std::size_t>(size) + index].source(), peer);
    const auto* data = in[index].as<unsigned char>();
    for (std::size_t i = 0; i < bytes; ++i)
      ASSERT_EQ(data[i], byteOf(peer, me, i)) << "byte " << i << " of " << bytes << " from rank " << peer;
  }
}

OperationCounters sends(const Communicator& comm) {
  for (const auto& [name, counters] : comm.report().operations) {
    if (name == "send") return counters;
  }
  return {};
}

TEST(ProcessMessages, EverySizeOnPrivateMemory) {
  onProcesses(3, [](RankProcess& process) {
    const auto comm = process.join();
    for (const std::size_t bytes : kSizes) exchangeAll(*comm, nullptr, bytes);
    const OperationCounters counters = sends(*comm);
    EXPECT_GT(counters.inlined, 0u);
    EXPECT_GT(counters.eager, 0u);
    EXPECT_GT(counters.staged, 0u) << "through pipes";
  });
}

TEST(ProcessMessages, EverySizeOnRegisteredMemory) {
  onProcesses(3, [](RankProcess& process) {
    const auto comm = process.join();
    const auto pool = poolFor(*comm, Memory::registered);
    for (const std::size_t bytes : kSizes) exchangeAll(*comm, pool, bytes);
    const OperationCounters counters = sends(*comm);
    EXPECT_GT(counters.zeroCopy, 0u) << "in place";
    EXPECT_EQ(counters.staged, 0u);
    EXPECT_EQ(counters.eager, 0u);
  });
}

TEST(ProcessMessages, AnySourceAndAnyTag) {
  onProcesses(4, [](RankProcess& process) {
    const auto comm = process.join();
    constexpr int kEach = 25;
    if (process.rank() != 0) {
      for (int i = 0; i < kEach; ++i) {
        const std::int64_t value = process.rank() * 1000 + i;
        ASSERT_OK(comm->send(&value, sizeof value, 0, i).wait());
      }
      process.meet(0);
      return;
    }
    std::map<int, int> next;
    for (int i = 0; i < 3 * kEach; ++i) {
      std::int64_t value = 0;
      const Request request = comm->recv(&value, sizeof value, kAnySource, kAnyTag);
      ASSERT_OK(request.wait());
      // Each sender's messages come in its order.
      EXPECT_EQ(value, request.source() * 1000 + next[request.source()]++);
      EXPECT_EQ(request.bytes(), sizeof value);
    }
    process.meet(0);
    EXPECT_EQ(next, (std::map<int, int>{{1, kEach}, {2, kEach}, {3, kEach}}));
  });
}

// Messages and collectives of one communicator do not wait for each other.
TEST(ProcessMessages, BesideCollectives) {
  onProcesses(2, [](RankProcess& process) {
    const auto comm = process.join();
    const int peer = 1 - process.rank();
    std::vector<std::int32_t> in(70001), out(70001), data(70001);
    for (int round = 0; round < 10; ++round) {
      for (std::size_t i = 0; i < data.size(); ++i)
        out[i] = data[i] = element(process.rank(), i + static_cast<unsigned>(round));
      const std::size_t bytes = data.size() * sizeof(std::int32_t);
      const Request received = comm->recv(in.data(), bytes, peer, 1);
      const Operation sum = Operation::allReduce(data.data(), data.data(), data.size(), DataType::int32, ReduceOp::sum);
      // One rank sends before, the other after: no order between the two lanes.
      Request sent;
      if (process.rank() == 0) sent = comm->send(out.data(), bytes, peer, 1);
      ASSERT_OK(comm->run(sum));
      if (process.rank() == 1) sent = comm->send(out.data(), bytes, peer, 1);
      ASSERT_OK(sent.wait());
      ASSERT_OK(received.wait());
      for (std::size_t i = 0; i < data.size(); ++i) {
        const std::size_t index = i + static_cast<unsigned>(round);
        ASSERT_EQ(in[i], element(peer, index));
        ASSERT_EQ(data[i], element(0, index) + element(1, index));
      }
    }
  });
}

TEST(ProcessMessages, AMessageThatIsTooLongNamesBothSizes) {
  onProcesses(2, [](RankProcess& process) {
    const auto comm = process.join();
    std::vector<unsigned char> data(5000);
    if (process.rank() == 0) {
      const Status sent = comm->send(data.data(), 5000, 1, 9).wait();
      process.meet(0);
      if (!sent) {
        EXPECT_EQ(sent.error().code(), Code::truncate);
      }
      return;
    }
    const Status status = comm->recv(data.data(), 4000, 0, 9).wait();
    process.meet(0);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::truncate);
    EXPECT_CONTAINS(status.error().message(), "rank 0 sent 5000 B");
    EXPECT_CONTAINS(status.error().message(), "4000 B");
  });
}

}  // namespace
}  // namespace symccl::test
