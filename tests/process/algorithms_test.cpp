// Variables that choose algorithms and stores, in processes of their own.

#include "process/all_kinds.hpp"
#include "process/process_ranks.hpp"
#include "unit/comm/memory_kinds.hpp"

namespace symccl::test {
namespace {

// Streaming stores are not ordered by what publishes a step: at every size, whoever reads a result must see it.
TEST(ProcessAlgorithms, StreamingStoresAtEverySize) {
  onProcesses(3, [](RankProcess& process) {
    process.set("SYMCCL_STORES", "streaming");
    const auto comm = process.join();
    const auto pool = poolFor(*comm, Memory::registered);
    std::size_t turn = 0;
    for (const std::size_t count : {1u, 13u, 255u, 256u, 257u, 1025u, 4099u, 16384u, 65537u, 262147u}) {
      for (const auto& memory : {pool, std::shared_ptr<Pool>()}) {
        checkAllKinds(*comm, memory, count, static_cast<int>(turn % 3), turn % 2 * 4);
        ++turn;
      }
    }
  });
}

TEST(ProcessAlgorithms, OrdinaryStoresAtLargeSizes) {
  onProcesses(2, [](RankProcess& process) {
    process.set("SYMCCL_STORES", "ordinary");
    const auto comm = process.join();
    checkAllKinds(*comm, poolFor(*comm, Memory::registered), 1100003, 1);
  });
}

TEST(ProcessAlgorithms, VariableForcesEachOperation) {
  onProcesses(3, [](RankProcess& process) {
    process.set(
        "HCCL_ALGO",
        "allreduce=level0:ring;level1:NHR/allgather=level0:H-D_R/broadcast=level0:tree/alltoall=level0:pairwise");
    const auto comm = process.join();
    const auto pool = poolFor(*comm, Memory::registered);
    for (const std::size_t count : {0u, 1u, 1025u, 70001u}) checkAllKinds(*comm, pool, count, 1, 0, false);
    EXPECT_EQ(countersOf(*comm, Kind::allReduce).algorithm, "ring");
    EXPECT_EQ(countersOf(*comm, Kind::allGather).algorithm, "halving-doubling");
    EXPECT_EQ(countersOf(*comm, Kind::broadcast).algorithm, "tree");
    EXPECT_EQ(countersOf(*comm, Kind::allToAll).algorithm, "pairwise");
    EXPECT_EQ(countersOf(*comm, Kind::reduceScatter).algorithm, "two-shot");
  });
}

TEST(ProcessAlgorithms, ThresholdsAreBytes) {
  onProcesses(2, [](RankProcess& process) {
    process.set("HCCL_TREE_THRESHOLD", "8K");
    process.set("HCCL_RING_THRESHOLD", "64K");
    const auto comm = process.join();
    const auto pool = poolFor(*comm, Memory::registered);
    const auto used = [&](std::size_t count) {
      checkAllKinds(*comm, pool, count, 1, 0, false);
      return countersOf(*comm, Kind::allReduce).algorithm;
    };
    EXPECT_EQ(used(1), "tree");
    EXPECT_EQ(used(2048), "tree");
    EXPECT_NE(used(2049), "tree");
    EXPECT_NE(used(16383), "ring");
    EXPECT_EQ(used(16384), "ring");
  });
}

TEST(ProcessAlgorithms, UnknownNameIsAnErrorThatListsTheKnownOnes) {
  onProcesses(2, [](RankProcess& process) {
    process.set("HCCL_ALGO", "level0:circle");
    const auto comm = process.create({"world", 60s});
    ASSERT_FALSE(comm);
    EXPECT_EQ(comm.error().code(), Code::invalid);
    EXPECT_CONTAINS(comm.error().message(), "HCCL_ALGO");
    EXPECT_CONTAINS(comm.error().message(), "circle");
    EXPECT_CONTAINS(comm.error().message(), "H-D_R, pairwise");
  });
}

TEST(ProcessAlgorithms, AnotherAlgorithmOnOneRankIsAnErrorOnAll) {
  onProcesses(2, [](RankProcess& process) {
    if (process.rank() == 1) process.set("HCCL_ALGO", "level0:ring");
    const auto comm = process.create({"world", 60s});
    ASSERT_FALSE(comm);
    EXPECT_EQ(comm.error().code(), Code::invalid);
    EXPECT_CONTAINS(comm.error().message(), "HCCL_ALGO 'level0:ring'");
    EXPECT_CONTAINS(comm.error().message(), "rank " + std::to_string(1 - process.rank()));
  });
}

}  // namespace
}  // namespace symccl::test
