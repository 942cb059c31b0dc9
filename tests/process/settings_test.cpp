// Variables that change how ranks work together, set alike and set differently.

#include <signal.h>
#include <unistd.h>

#include "process/all_kinds.hpp"
#include "process/process_ranks.hpp"
#include "unit/comm/memory_kinds.hpp"

namespace symccl::test {
namespace {

TEST(ProcessSettings, WithoutMembarrier) {
  onProcesses(3, [](RankProcess& process) {
    process.set("SYMCCL_MEMBARRIER", "0");
    const auto comm = process.join();
    const auto pool = poolFor(*comm, Memory::registered);
    for (const std::size_t count : {1u, 1023u, 262145u}) {
      checkAllKinds(*comm, pool, count, 2);
      checkAllKinds(*comm, nullptr, count, 2);
    }
  });
}

// One rank that cannot use membarrier makes all use fences.
TEST(ProcessSettings, OneRankWithoutMembarrier) {
  onProcesses(3, [](RankProcess& process) {
    if (process.rank() == 1) process.set("SYMCCL_MEMBARRIER", "0");
    const auto comm = process.join();
    for (const std::size_t count : {1u, 1023u, 262145u}) checkAllKinds(*comm, nullptr, count, 2);
    // Long enough that ranks sleep and are woken.
    for (int i = 0; i < 20; ++i) {
      if (process.rank() == i % 3) std::this_thread::sleep_for(2ms);
      ASSERT_OK(comm->run(Operation::barrier()));
    }
  });
}

// More threads than CPUs, in each of two ranks.
TEST(ProcessSettings, SeveralThreadsMoveLargeOperations) {
  onProcesses(2, [](RankProcess& process) {
    process.set("SYMCCL_THREADS", "3");
    const auto comm = process.join();
    checkAllKinds(*comm, poolFor(*comm, Memory::registered), 1'600'003, 1);
    checkAllKinds(*comm, nullptr, 1'600'003);
  });
}

TEST(ProcessSettings, StagedPathOnly) {
  onProcesses(3, [](RankProcess& process) {
    process.set("SYMCCL_PATH", "staged");
    const auto comm = process.join();
    const auto pool = poolFor(*comm, Memory::registered);
    for (const std::size_t count : {1u, 1025u, 262145u}) checkAllKinds(*comm, pool, count, 1);
    for (const auto& [name, counters] : comm->report().operations) EXPECT_EQ(counters.zeroCopy, 0u) << name;
    EXPECT_GT(countersOf(*comm, Kind::allReduce).staged, 0u);
  });
}

TEST(ProcessSettings, AnotherPathOnOneRankIsAnErrorOnAll) {
  onProcesses(2, [](RankProcess& process) {
    if (process.rank() == 1) process.set("SYMCCL_PATH", "staged");
    const auto comm = process.create({"world", 60s});
    ASSERT_FALSE(comm);
    EXPECT_EQ(comm.error().code(), Code::invalid);
    EXPECT_CONTAINS(comm.error().message(), "SYMCCL_PATH");
    EXPECT_CONTAINS(comm.error().message(), "rank " + std::to_string(1 - process.rank()));
  });
}

TEST(ProcessSettings, RanksOfSeveralHostsAreNamed) {
  onProcesses(4, [](RankProcess& process) {
    process.set("SYMCCL_HOST_ID", process.rank() == 1 || process.rank() == 2 ? "b" : "a");
    const auto comm = process.create({"world", 60s});
    ASSERT_FALSE(comm);
    EXPECT_EQ(comm.error().code(), Code::unsupported);
    const std::string& message = comm.error().message();
    const bool isB = process.rank() == 1 || process.rank() == 2;
    EXPECT_TRUE(contains(message, isB ? "ranks 0, 3" : "ranks 1, 2") || contains(message, " failed: ranks "))
        << message;
    EXPECT_CONTAINS(message, "SYMCCL_HOST_ID");
    EXPECT_CONTAINS(message, "network");
  });
}

// --- staging that cannot be touched ---------------------------------------------------------------------------------

TEST(ProcessSettings, ZeroCopyTouchesNoStaging) {
  onProcesses(3, [](RankProcess& process) {
    process.set("SYMCCL_TEST_STAGING", "inaccessible");
    const auto comm = process.join();
    const auto pool = poolFor(*comm, Memory::registered);
    for (const std::size_t count : {0u, 13u, 1024u, 2500u, 262145u}) checkAllKinds(*comm, pool, count, 1);
    for (const auto& [name, counters] : comm->report().operations) {
      EXPECT_EQ(counters.staged, 0u) << name;
      const bool moves = name != "barrier" && name != "send" && name != "recv";
      EXPECT_EQ(counters.zeroCopy > 0, moves) << name;
    }
  });
}

// What would make the test above fail, were staging touched.
TEST(ProcessSettings, AStagedOperationFaultsWhereStagingIsInaccessible) {
  const auto body = [](RankProcess& process) {
    ::signal(SIGSEGV, [](int) { ::kill(::getpid(), SIGKILL); });
    process.set("SYMCCL_TEST_STAGING", "inaccessible");
    const auto comm = process.join();
    std::vector<float> data(100000, 1.0f);
    const Status status =
        comm->run(Operation::allReduce(data.data(), data.data(), data.size(), DataType::float32, ReduceOp::sum));
    ADD_FAILURE() << "the operation ended: " << (status ? "success" : status.error().message());
  };
  onProcesses(2, body, {0, 1});
}

}  // namespace
}  // namespace symccl::test
