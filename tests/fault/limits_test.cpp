// Ranks that run out of something: memory of the heap, of the cgroup, address space, descriptors.

#include <sys/resource.h>

#include "fault/survivors.hpp"
#include "process/proc.hpp"
#include "unit/memory/limited_cgroup.hpp"

namespace symccl::test {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

void limit(__rlimit_resource what, rlim_t soft) {
  rlimit now{};
  ASSERT_EQ(::getrlimit(what, &now), 0);
  now.rlim_cur = soft;
  ASSERT_EQ(::setrlimit(what, &now), 0);
}

TEST(Limits, AnExhaustedHeapSaysAskedFreeLimitAndVariable) {
  onProcesses(2, [](RankProcess& process) {
    process.set("SYMCCL_HEAP_SIZE", "64M");
    const auto comm = process.join();
    const auto pool = poolFor(*comm, Memory::registered);
    checkAllKinds(*comm, pool, 70000, 1);
    const auto refused = pool->allocate(100 * kMebibyte);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::memory);
    for (const char* part : {"asked 100 MiB", "free ", "limit 64 MiB", "SYMCCL_HEAP_SIZE"})
      EXPECT_CONTAINS(refused.error().message(), part);
    checkAllKinds(*comm, pool, 70000, 0);
    checkAllKinds(*comm, nullptr, 70000, 0);
  });
}

// No room for the control area of a communicator: an error on the rank concerned, told to all; room, and all is well.
TEST(Limits, ACommunicatorWithoutRoomInOneHeap) {
  onProcesses(3, [](RankProcess& process) {
    process.set("SYMCCL_HEAP_SIZE", "64M");
    const auto comm = process.join("first");
    const auto pool = *Pool::create();
    std::vector<void*> blocks;
    if (process.rank() == 1) {
      while (const auto block = pool->allocate(kMebibyte)) blocks.push_back(*block);
    }
    const auto second = process.create({"second", 60s});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code(), Code::memory);
    EXPECT_CONTAINS(second.error().message(), "SYMCCL_HEAP_SIZE");
    EXPECT_EQ(contains(second.error().message(), "rank 1 failed"), process.rank() != 1);
    const auto split = comm->split(0, 0, {"split", 60s});
    ASSERT_FALSE(split);
    EXPECT_EQ(split.error().code(), Code::memory) << split.error().message();
    EXPECT_OK(comm->status());
    for (void* block : blocks) pool->free(block);
    pool->trim();
    checkAllKinds(*process.join("second"), nullptr, 70000, 1);
    checkAllKinds(*comm, nullptr, 70000, 1);
    process.meet(0);
  });
}

// --- the cgroup -----------------------------------------------------------------------------------------------------

TEST(Limits, ACgroupsMemoryIsAnErrorAndKillsNobody) {
  constexpr std::size_t kLimit = 192 * kMebibyte;
  const LimitedCgroup cgroup(kLimit);
  if (!cgroup) GTEST_SKIP() << "this user may not make a cgroup with a memory limit";
  onProcesses(2, [&](RankProcess& process) {
    ASSERT_TRUE(process.rank() == 0 || cgroup.enter());
    const auto comm = process.join();
    const auto pool = poolFor(*comm, Memory::registered);
    if (process.rank() == 1) {
      for (const std::size_t asked : {kLimit, 4 * kLimit}) {
        const auto refused = pool->allocate(asked);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code(), Code::memory);
        EXPECT_CONTAINS(refused.error().message(), "cgroup");
        EXPECT_CONTAINS(refused.error().message(), "192 MiB");
      }
    }
    checkAllKinds(*comm, pool, 300007, 1);
    checkAllKinds(*comm, nullptr, 300007, 1);
    process.meet(0);
  });
}

// The pages of staging are refused in the first operation that needs them.
TEST(Limits, ACgroupWithoutRoomForStaging) {
  constexpr std::size_t kLimit = 192 * kMebibyte;
  const LimitedCgroup cgroup(kLimit);
  if (!cgroup) GTEST_SKIP() << "this user may not make a cgroup with a memory limit";
  onProcesses(2, [&](RankProcess& process) {
    ASSERT_TRUE(process.rank() == 0 || cgroup.enter());
    auto comm = process.join();
    const auto pool = *Pool::create();
    std::vector<void*> blocks;
    if (process.rank() == 1) {
      while (const auto block = pool->allocate(kMebibyte)) blocks.push_back(*block);
      EXPECT_GT(blocks.size(), 32u);
    }
    std::vector<std::int32_t> data(300007);
    const Status status =
        comm->run(Operation::allReduce(data.data(), data.data(), data.size(), DataType::int32, ReduceOp::sum));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::memory) << status.error().message();
    EXPECT_EQ(status.error().rank(), 1);
    EXPECT_CONTAINS(status.error().message(), process.rank() == 1 ? "cgroup" : "rank 1 failed");
    expectSticky(*comm);
    process.meet(0);
    for (void* block : blocks) pool->free(block);
    pool->trim();
    comm.reset();
    checkAllKinds(*process.join("second"), nullptr, 300007, 1);
    process.meet(1);
  });
}

// --- address space --------------------------------------------------------------------------------------------------

TEST(Limits, ASmallAddressSpaceMakesSmallHeaps) {
  onProcesses(3, [](RankProcess& process) {
    limit(RLIMIT_AS, 4096 * kMebibyte);
    const auto comm = process.join();
    EXPECT_LT(heapReport()->bytes, 1024 * kMebibyte);
    EXPECT_TRUE(comm->report().symmetric);
    checkAllKinds(*comm, poolFor(*comm, Memory::registered), 70000, 1);
  });
}

TEST(Limits, TooSmallAnAddressSpaceForAnyHeap) {
  onProcesses(2, [](RankProcess& process) {
    if (process.rank() == 1) limit(RLIMIT_AS, 160 * kMebibyte);
    const auto comm = process.create({"world", 60s});
    ASSERT_FALSE(comm);
    EXPECT_EQ(comm.error().code(), Code::memory) << comm.error().message();
    EXPECT_CONTAINS(comm.error().message(), "ulimit -v");
    EXPECT_CONTAINS(comm.error().message(), "64 MiB");
  });
}

// The own heap fits, that of a rank without a limit does not.
TEST(Limits, TooSmallAnAddressSpaceForAPeersHeap) {
  onProcesses(2, [](RankProcess& process) {
    if (process.rank() == 1) limit(RLIMIT_AS, 4096 * kMebibyte);
    const auto comm = process.create({"world", 60s});
    ASSERT_FALSE(comm);
    EXPECT_EQ(comm.error().code(), Code::memory) << comm.error().message();
    EXPECT_CONTAINS(comm.error().message(), "ulimit -v");
    EXPECT_CONTAINS(comm.error().message(), "SYMCCL_HEAP_SIZE");
    EXPECT_EQ(contains(comm.error().message(), "rank 1 failed"), process.rank() == 0);
  });
}

// --- descriptors ----------------------------------------------------------------------------------------------------

// One rank may open only so many more: whichever step fails for it, both learn why.
TEST(Limits, TooFewDescriptors) {
  SharedMemory<std::atomic<int>> failures;
  for (int more = 0; more < 9; ++more) {
    onProcesses(2, [&](RankProcess& process) {
      if (process.rank() == 1) limit(RLIMIT_NOFILE, static_cast<rlim_t>(openDescriptors() + more));
      const auto comm = process.create({"world", 60s});
      process.word(process.rank()) = comm ? 1 : 2;
      if (!comm) {
        EXPECT_EQ(comm.error().code(), Code::system) << comm.error().message();
        EXPECT_TRUE(contains(comm.error().message(), "descriptor") ||
                    contains(comm.error().message(), "Too many open files"))
            << comm.error().message();
        ++*failures.operator->();
      }
      process.meet(0);
      EXPECT_EQ(process.word(0), process.word(1)) << "both or none, with " << more << " descriptors more";
    });
  }
  EXPECT_GT(failures->load(), 4) << "the limits were low enough";
}

}  // namespace
}  // namespace symccl::test
