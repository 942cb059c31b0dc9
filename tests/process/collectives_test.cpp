// Collectives among processes: values on private and on registered memory, and that registered memory is used in place.

#include <sys/mman.h>

#include "memory/window.hpp"
#include "process/all_kinds.hpp"
#include "process/process_ranks.hpp"
#include "unit/comm/memory_kinds.hpp"

namespace symccl::test {
namespace {

// Around the limits of the forms: 48 B inline, 4 KiB eager, 1 MiB slices; beside them a prime.
constexpr std::size_t kCounts[] = {0, 1, 12, 13, 341, 1023, 1024, 1025, 65537, 262144 + 1};

std::shared_ptr<Pool> registeredPool(Communicator& comm) { return poolFor(comm, Memory::registered); }

OperationCounters sumOfCounters(const Communicator& comm) {
  OperationCounters sum;
  for (const auto& [name, counters] : comm.report().operations) {
    if (name == "send" || name == "recv") continue;
    sum.calls += counters.calls;
    sum.zeroCopy += counters.zeroCopy;
    sum.staged += counters.staged;
  }
  return sum;
}

class Processes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Processes, testing::Values(2, 3, 5, 8));

TEST_P(Processes, EveryKindOnPrivateMemory) {
  onProcesses(GetParam(), [](RankProcess& process) {
    const auto comm = process.join();
    EXPECT_TRUE(comm->report().symmetric);
    int round = 0;
    for (const std::size_t count : kCounts) {
      checkAllKinds(*comm, nullptr, count, round % comm->size(), static_cast<std::size_t>(round % 3));
      ++round;
    }
    const OperationCounters counters = sumOfCounters(*comm);
    EXPECT_EQ(counters.zeroCopy, 0u);
    EXPECT_GT(counters.staged, 0u);
  });
}

TEST_P(Processes, EveryKindOnRegisteredMemory) {
  onProcesses(GetParam(), [](RankProcess& process) {
    const auto comm = process.join();
    EXPECT_TRUE(comm->report().symmetric);
    const auto pool = registeredPool(*comm);
    // Heaps that were used differently before: every rank has other offsets.
    void* before = *pool->allocate(static_cast<std::size_t>(1 + 3 * process.rank()) << 20);
    int round = 0;
    for (const std::size_t count : kCounts) {
      checkAllKinds(*comm, pool, count, round % comm->size(), static_cast<std::size_t>(round % 3));
      ++round;
    }
    pool->free(before);
    const OperationCounters counters = sumOfCounters(*comm);
    EXPECT_EQ(counters.staged, 0u);
    EXPECT_GT(counters.zeroCopy, 0u);
  });
}

TEST(ProcessMemory, BothSidesSeeTheSameBytesAtTheSameAddress) {
  onProcesses(3, [](RankProcess& process) {
    const auto comm = process.join();
    const auto pool = Pool::create();
    auto* own = static_cast<std::uint64_t*>(*(*pool)->allocate(4096));
    own[7] = 0x5a5a0000u + static_cast<unsigned>(process.rank());
    process.word(process.rank()) = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(own));
    process.meet(0);
    const int next = (process.rank() + 1) % 3;
    const auto* theirs = reinterpret_cast<const std::uint64_t*>(process.word(next).load());
    EXPECT_EQ(theirs[7], 0x5a5a0000u + static_cast<unsigned>(next));
    EXPECT_EQ(heapReport()->base, windowAddress(process.rank()));
    process.meet(1);
  });
}

// The range of a heap is taken in one process: there it stands elsewhere, and offsets still work.
void takeWindow(int ordinal) {
  void* taken =
      ::mmap(windowAddress(ordinal), 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(taken, windowAddress(ordinal));
}

TEST(ProcessMemory, APeersWindowIsTaken) {
  onProcesses(3, [](RankProcess& process) {
    if (process.rank() == 1) takeWindow(2);
    const auto comm = process.join();
    EXPECT_EQ(comm->report().symmetric, process.rank() != 1);
    const auto pool = registeredPool(*comm);
    for (const std::size_t count : {13u, 1025u, 300007u}) {
      checkAllKinds(*comm, pool, count, 2);
      checkAllKinds(*comm, nullptr, count, 2);
    }
    EXPECT_GT(countersOf(*comm, Kind::allReduce).zeroCopy, 0u);
  });
}

TEST(ProcessMemory, TheOwnWindowIsTaken) {
  onProcesses(3, [](RankProcess& process) {
    if (process.rank() == 1) takeWindow(1);
    const auto comm = process.join();
    EXPECT_EQ(comm->report().symmetric, process.rank() != 1);
    EXPECT_EQ(heapReport()->symmetric, process.rank() != 1);
    checkAllKinds(*comm, registeredPool(*comm), 300007, 1);
    EXPECT_GT(countersOf(*comm, Kind::broadcast).zeroCopy, 0u);
  });
}

TEST(ProcessMemory, HeapsOfDifferentSizes) {
  onProcesses(3, [](RankProcess& process) {
    process.set("SYMCCL_HEAP_SIZE", process.rank() == 0 ? "64M" : process.rank() == 1 ? "256M" : "1T");
    const auto comm = process.join();
    EXPECT_TRUE(comm->report().symmetric);
    EXPECT_EQ(heapReport()->bytes, std::size_t{64} << (process.rank() == 0 ? 20 : process.rank() == 1 ? 22 : 34));
    checkAllKinds(*comm, registeredPool(*comm), 65537, 2);
  });
}

// All on one device ordinal: only one heap can have the slot.
TEST(ProcessMemory, RanksOfOneOrdinal) {
  onProcesses(3, [](RankProcess& process) {
    ASSERT_OK(setDefaultDevice(5));
    const auto comm = process.join();
    EXPECT_FALSE(comm->report().symmetric);
    EXPECT_TRUE(heapReport()->symmetric);
    checkAllKinds(*comm, registeredPool(*comm), 65537, 1);
  });
}

}  // namespace
}  // namespace symccl::test
