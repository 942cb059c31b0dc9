// Operations of high priority, and what others give up for them.
#include "collectives/priority.hpp"

#include <thread>

#include "unit/comm/memory_kinds.hpp"

namespace symccl::test {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

TEST(Priority, NobodyWaitsWhereNothingIsUrgent) {
  GivingWay operation;
  const auto start = Clock::now();
  for (int i = 0; i < 100'000; ++i) operation.pause();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));  // 100 s if each took its 1 ms
}

TEST(Priority, PausesEndWithTheLastUrgentOperation) {
  auto first = std::make_unique<UrgentOperation>();
  auto second = std::make_unique<UrgentOperation>();
  std::atomic<int> passed{0};
  std::thread bulk([&] {
    for (int i = 0; i < 20; ++i) {
      GivingWay operation;
      operation.pause();
      ++passed;
    }
  });
  first.reset();
  second.reset();
  bulk.join();
  EXPECT_EQ(passed, 20);
}

TEST(Priority, APauseIsBoundedAndSoAreAllOfAnOperation) {
  const UrgentOperation urgent;  // one that hangs
  GivingWay operation;
  const auto start = Clock::now();
  operation.pause();
  EXPECT_GE(Clock::now() - start, milliseconds(1) - std::chrono::microseconds(100));
  for (int i = 0; i < 100'000; ++i) operation.pause();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(20));  // 50 of them, and 100 s if they were not counted
}

// Bulk transfers and small operations of high priority at once: both end, with the right values.
TEST(Priority, BothKindsEnd) {
  withRanks(2, [](Communicator& comm) {
    CommunicatorOptions options;
    options.name = "urgent";
    options.highPriority = true;
    const auto urgent = comm.split(0, comm.rank(), options);
    ASSERT_TRUE(urgent);
    std::vector<float> bulk(std::size_t{6} << 20);
    for (std::size_t i = 0; i < bulk.size(); ++i) bulk[i] = static_cast<float>(i % 1000 + comm.rank());
    const Request large =
        comm.start(Operation::allReduce(bulk.data(), bulk.data(), bulk.size(), DataType::float32, ReduceOp::sum));
    for (int i = 0; i < 50; ++i) {
      std::vector<std::int32_t> small(2000, i + comm.rank());
      ASSERT_OK((*urgent)->run(
          Operation::allReduce(small.data(), small.data(), small.size(), DataType::int32, ReduceOp::sum)));
      ASSERT_EQ(small, std::vector<std::int32_t>(small.size(), 2 * i + 1));
    }
    ASSERT_OK(large.wait());
    for (std::size_t i = 0; i < bulk.size(); ++i) ASSERT_EQ(bulk[i], static_cast<float>(2 * (i % 1000) + 1)) << i;
  });
}

}  // namespace
}  // namespace symccl::test
