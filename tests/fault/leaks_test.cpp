// What is left of communicators that were destroyed, and of processes that were killed: nothing.

#include <sys/resource.h>

#include <array>
#include <filesystem>

#include "fault/survivors.hpp"
#include "fault/tripwire.hpp"
#include "process/proc.hpp"

namespace symccl::test {
namespace {

struct Traces {
  std::array<std::uint64_t, 4> heaps;
  std::array<std::array<std::uint64_t, 16>, 4> sockets;
};

TEST(Leaks, NothingIsLeftOfKilledRanks) {
  SharedMemory<Traces> traces;
  const auto body = [&](RankProcess& process) {
    auto comm = process.join();
    const auto pool = poolFor(*comm, Memory::registered);
    checkAllKinds(*comm, pool, 300007, 1);
    checkAllKinds(*comm, nullptr, 300007, 1);
    const auto me = static_cast<std::size_t>(process.rank());
    traces->heaps[me] = heapInode();
    const auto sockets = socketInodes();
    ASSERT_GE(sockets.size(), 4u) << "one that listens, a link to each other rank";
    ASSERT_LE(sockets.size(), traces->sockets[me].size());
    std::copy(sockets.begin(), sockets.end(), traces->sockets[me].begin());
    process.meet(0);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      EXPECT_TRUE(someoneHolds(traces->heaps[rank])) << "the test sees what it looks for";
      EXPECT_TRUE(isSocket(traces->sockets[rank][0]));
    }
    process.meet(1);
    if (testing::Test::HasFailure()) std::exit(1);
    die();
  };
  onProcesses(4, body, {0, 1, 2, 3});
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_FALSE(someoneHolds(traces->heaps[rank])) << "memory of rank " << rank;
    for (const std::uint64_t socket : traces->sockets[rank]) EXPECT_FALSE(socket != 0 && isSocket(socket));
  }
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
    EXPECT_FALSE(contains(file.path().string(), "symccl")) << file.path();
}

// What a process holds; of memory, that which grows with the number of communicators if something is forgotten.
struct Held {
  int descriptors, mappings, threads;
  std::size_t heap, resident;
};
Held held() { return {openDescriptors(), mappings(), threads(), heapPages(), residentPrivate()}; }

void useAndDestroy(RankProcess& process, int times) {
  for (int i = 0; i < times; ++i) {
    auto comm = process.join("round");
    const auto pool = Pool::create();
    ASSERT_OK(comm->registerPool(*pool));
    checkAllKinds(*comm, *pool, 5000, 1);
    checkAllKinds(*comm, nullptr, 5000, 1);
    auto split = comm->split(0, -process.rank(), {"split", 60s});
    ASSERT_TRUE(split);
    std::vector<unsigned char> out(100000), in(100000);
    const int to = ((*split)->rank() + 1) % 3, from = ((*split)->rank() + 2) % 3;
    const Request received = (*split)->recv(in.data(), in.size(), from);
    ASSERT_OK((*split)->send(out.data(), out.size(), to).wait());
    ASSERT_OK(received.wait());
  }
  process.meet(times);  // areas come back when all have destroyed theirs
}

TEST(Leaks, OneHundredCyclesHoldNoMoreThanTen) {
  onProcesses(3, [](RankProcess& process) {
    useAndDestroy(process, 10);
    const Held before = held();
    useAndDestroy(process, 50);
    useAndDestroy(process, 49);
    const Held after = held();
    EXPECT_EQ(after.descriptors, before.descriptors);
    EXPECT_LE(after.mappings, before.mappings + 8);
    EXPECT_EQ(after.threads, before.threads);
    EXPECT_EQ(after.threads, 2) << "this one and the sentinel";
    EXPECT_LE(after.heap, before.heap + (8 << 20));
    EXPECT_LE(after.resident, before.resident + (16 << 20));
    process.meet(0);
  });
}

// The same for communicators that end by an error: descriptors of the dead are closed, areas used again.
TEST(Leaks, CyclesWithDeadMembers) {
  constexpr int kRounds = 12;
  std::set<int> victims;
  for (int i = 0; i < kRounds; ++i) victims.insert(2 + i);
  const auto body = [](RankProcess& process) {
    Held first{};
    for (int round = 0; round < kRounds; ++round) {
      const int victim = 2 + round;
      if (process.rank() > 1 && process.rank() != victim) continue;
      const int rank = process.rank() < 2 ? process.rank() : 2;
      auto comm = Communicator::create(process.store(), rank, 3, {"round " + std::to_string(round), 60s});
      ASSERT_TRUE(comm) << comm.error().message();
      checkAllKinds(**comm, nullptr, 70000, 1);
      process.meet(round, 3);
      if (process.rank() == victim) die();
      EXPECT_EQ((*comm)->run(Operation::barrier()).error().code(), Code::dead);
      comm->reset();
      process.meet(20 + round, 2);
      if (round == 2) first = held();
    }
    // The last death may have been told by the other survivor; the own link closes a moment later.
    EXPECT_TRUE(eventually([&] { return openDescriptors() <= first.descriptors; })) << openDescriptors();
    const Held last = held();
    EXPECT_EQ(last.threads, first.threads);
    EXPECT_LE(last.heap, first.heap + (8 << 20));
    EXPECT_LE(last.mappings, first.mappings + kRounds) << "one for the heap of each that died, kept for who may use it";
  };
  onProcesses(2 + kRounds, body, victims);
}

// A process may end whatever is open: queued operations, messages under way, threads that drive them.
TEST(Leaks, APlainExitNeedsNoDestruction) {
  for (const bool messages : {false, true}) {
    onProcesses(2, [=](RankProcess& process) {
      const auto comm = process.join();
      auto* kept = new std::vector<unsigned char>(5000000);
      std::vector<Request> requests;
      if (messages) {
        requests.push_back(comm->recv(kept->data(), kept->size(), 1 - process.rank(), 1));
        requests.push_back(comm->send(kept->data(), kept->size(), 1 - process.rank(), 2));
      } else if (process.rank() == 0) {
        requests.push_back(comm->start(Operation::broadcast(kept->data(), kept->size(), DataType::byte, 0)));
      }
      std::this_thread::sleep_for(50ms);
      for (const Request& request : requests) EXPECT_FALSE(request.done());
      process.meet(0);
      new std::shared_ptr<Communicator>(comm);
    });
  }
}

std::chrono::microseconds cpuTime() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

// Threads that wait sleep: those of an idle communicator, and those of one whose peers do not come.
TEST(Leaks, WaitingCostsNoProcessorTime) {
  onProcesses(2, [](RankProcess& process) {
    const auto comm = process.join();
    checkAllKinds(*comm, nullptr, 5000, 0);
    std::int64_t value = 0;
    Request request;
    if (process.rank() == 0) request = comm->recv(&value, sizeof value, 1);
    process.meet(0);
    std::this_thread::sleep_for(300ms);  // whoever polls gives up
    const auto before = cpuTime();
    std::this_thread::sleep_for(1s);
    EXPECT_LT(cpuTime() - before, 100ms) << "of one second";
    process.meet(1);
    EXPECT_OK(process.rank() == 1 ? comm->send(&value, sizeof value, 0).wait() : request.wait());
    process.meet(2);
  });
}

}  // namespace
}  // namespace symccl::test
