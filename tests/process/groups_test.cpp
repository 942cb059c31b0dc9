// Several communicators over the same processes.

#include "process/all_kinds.hpp"
#include "process/process_ranks.hpp"
#include "unit/comm/memory_kinds.hpp"

namespace symccl::test {
namespace {

TEST(ProcessGroups, TwoOverTheSameProcesses) {
  onProcesses(3, [](RankProcess& process) {
    const auto first = process.join("first");
    const auto second = process.join("second");
    const auto pool = poolFor(*first, Memory::registered);
    // Registered with one of them only.
    checkAllKinds(*first, pool, 5000, 1);
    checkAllKinds(*second, pool, 5000, 2);
    EXPECT_EQ(countersOf(*first, Kind::allReduce).staged, 0u);
    EXPECT_EQ(countersOf(*second, Kind::allReduce).zeroCopy, 0u);
    EXPECT_TRUE(second->report().symmetric);
  });
}

// Operations of two communicators are under way at once, issued in different orders.
TEST(ProcessGroups, OperationsOfTwoDoNotOrderEachOther) {
  onProcesses(2, [](RankProcess& process) {
    const std::shared_ptr<Communicator> comms[] = {process.join("first"), process.join("second")};
    constexpr std::size_t kCount = 100003;
    std::vector<std::vector<std::int32_t>> data(2, std::vector<std::int32_t>(kCount));
    for (int round = 0; round < 20; ++round) {
      std::vector<Request> requests;
      for (int turn = 0; turn < 2; ++turn) {
        const auto which = static_cast<std::size_t>(process.rank() == 0 ? turn : 1 - turn);
        auto& own = data[which];
        for (std::size_t i = 0; i < kCount; ++i)
          own[i] = element(process.rank(), i + which + static_cast<unsigned>(round));
        requests.push_back(
            comms[which]->start(Operation::allReduce(own.data(), own.data(), kCount, DataType::int32, ReduceOp::sum)));
      }
      for (const Request& request : requests) ASSERT_OK(request.wait());
      for (std::size_t which = 0; which < 2; ++which) {
        for (std::size_t i = 0; i < kCount; ++i) {
          const std::size_t index = i + which + static_cast<unsigned>(round);
          ASSERT_EQ(data[which][i], element(0, index) + element(1, index)) << "communicator " << which;
        }
      }
    }
  });
}

TEST(ProcessGroups, SplitByColorAndKey) {
  onProcesses(5, [](RankProcess& process) {
    const auto world = process.join();
    // 0, 2, 4 in falling order; 1 and 3 in rising order.
    const int me = process.rank(), color = me % 2;
    auto split = world->split(color, color == 0 ? -me : me, {"half", 60s});
    ASSERT_TRUE(split) << split.error().message();
    const auto half = *split;
    EXPECT_EQ(half->size(), color == 0 ? 3 : 2);
    EXPECT_EQ(half->rank(), color == 0 ? (4 - me) / 2 : me / 2);
    const auto pool = poolFor(*half, Memory::registered);
    checkAllKinds(*half, pool, 5000, 1);
    checkAllKinds(*half, nullptr, 5000, 0);
    checkAllKinds(*world, nullptr, 1025, 3);
    std::vector<int> expected;
    for (int other = color == 0 ? 4 : 1; other >= 0 && other < 5; other += color == 0 ? -2 : 2)
      expected.push_back(process.pidOf(other));
    EXPECT_EQ(half->pids(), expected);
  });
}

TEST(ProcessGroups, SplitLeavesOutWhoGivesNoColor) {
  onProcesses(4, [](RankProcess& process) {
    const auto world = process.join();
    auto split = world->split(process.rank() == 2 ? -1 : 0, 0, {"some", 60s});
    ASSERT_TRUE(split) << split.error().message();
    ASSERT_EQ(*split == nullptr, process.rank() == 2);
    if (*split) checkAllKinds(**split, nullptr, 1025, 1);
    EXPECT_OK(world->run(Operation::barrier()));
  });
}

// A group of some processes, overlapping with another; none of them holds up the rest.
TEST(ProcessGroups, OverlappingGroups) {
  onProcesses(4, [](RankProcess& process) {
    const auto world = process.join();
    std::vector<std::shared_ptr<Communicator>> pairs;
    // (0,1) (1,2) (2,3) (3,0): every process is in two, and creates them in another order.
    for (int turn = 0; turn < 2; ++turn) {
      const int low = (process.rank() + 3 + (process.rank() % 2 == 0 ? turn : 1 - turn)) % 4;
      const std::string name = "pair-" + std::to_string(low);
      auto pair = Communicator::create(process.store(), process.rank() == low ? 0 : 1, 2, {name, 60s});
      ASSERT_TRUE(pair) << pair.error().message();
      pairs.push_back(*pair);
    }
    for (const auto& pair : pairs) checkAllKinds(*pair, nullptr, 2000, 1);
    EXPECT_OK(world->run(Operation::barrier()));
  });
}

// The same name again, once all have left it.
TEST(ProcessGroups, ANameIsUsedAgain) {
  onProcesses(3, [](RankProcess& process) {
    for (int round = 0; round < 5; ++round) {
      const auto comm = process.join("again");
      checkAllKinds(*comm, nullptr, 1025, round % 3);
    }
  });
}

}  // namespace
}  // namespace symccl::test
