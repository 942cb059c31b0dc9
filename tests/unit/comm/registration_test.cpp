// Registered pools: what makes an operation zero-copy, and what ends it.

#include "unit/comm/memory_kinds.hpp"

namespace symccl::test {
namespace {

constexpr std::size_t kCount = 50000;

Status sumFloats(Communicator& comm, void* data) {
  return comm.run(Operation::allReduce(data, data, kCount, DataType::float32, ReduceOp::sum));
}

TEST(Registration, SegmentsThatComeAndGoAreTracked) {
  withRanks(2, [](Communicator& comm) {
    auto created = Pool::create();
    ASSERT_TRUE(created);
    const std::shared_ptr<Pool> pool = *created;
    ASSERT_OK(comm.registerPool(pool));
    ASSERT_OK(comm.registerPool(pool));  // a no-op
    EXPECT_EQ(comm.report().registeredBytes, 0u);
    void* before = *pool->allocate(kCount * 4);
    EXPECT_TRUE(comm.isRegistered(before, kCount * 4));
    EXPECT_GT(comm.report().registeredBytes, 0u);
    ASSERT_OK(sumFloats(comm, before));
    EXPECT_EQ(countersOf(comm, Kind::allReduce).zeroCopy, 1u);
    pool->free(before);
    EXPECT_GT(pool->trim(), 0u);
    EXPECT_FALSE(comm.isRegistered(before, kCount * 4));
    EXPECT_EQ(comm.report().registeredBytes, 0u);
    void* after = *pool->allocate(kCount * 4);
    ASSERT_OK(comm.deregisterPool(pool));
    EXPECT_FALSE(comm.isRegistered(after, kCount * 4));
    ASSERT_OK(sumFloats(comm, after));
    EXPECT_EQ(countersOf(comm, Kind::allReduce).staged, 1u);
    pool->free(after);
    const Status again = comm.deregisterPool(pool);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().message(), "Trying to unregister a pool that was not previously registered");
  });
}

TEST(Registration, OnePrivateBufferStagesEveryRankAndSaysWhy) {
  withRanks(3, [](Communicator& comm) {
    const auto pool = poolFor(comm, Memory::registered);
    Buffer registered(kCount * 4, pool), plain(kCount * 4, nullptr);
    auto* data = comm.rank() == 1 ? plain.as<float>() : registered.as<float>();
    for (std::size_t i = 0; i < kCount; ++i) data[i] = static_cast<float>(i);
    ASSERT_OK(sumFloats(comm, data));
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(data[i], 3 * static_cast<float>(i));
    const CommunicatorReport report = comm.report();
    EXPECT_EQ(countersOf(comm, Kind::allReduce).staged, 1u);
    EXPECT_EQ(report.stagedSendPrivate, 1u);
    EXPECT_EQ(report.stagedRecvPrivate, 1u);
  });
}

TEST(Registration, OffsetsNeedNotBeEqual) {
  withRanks(2, [](Communicator& comm) {
    const auto pool = poolFor(comm, Memory::registered);
    std::vector<void*> skew;
    for (int i = 0; i < 3 * comm.rank(); ++i) skew.push_back(*pool->allocate(3 << 20));
    Buffer data(kCount * 4, pool);
    for (std::size_t i = 0; i < kCount; ++i) data.as<float>()[i] = 1.0f;
    ASSERT_OK(sumFloats(comm, data.data()));
    EXPECT_EQ(data.as<float>()[kCount - 1], 2.0f);
    EXPECT_EQ(countersOf(comm, Kind::allReduce).zeroCopy, 1u);
    for (void* block : skew) pool->free(block);
  });
}

TEST(Registration, PoolOfAnotherDeviceIsRefused) {
  withRanks(1, [](Communicator& comm) {
    auto other = Pool::create((defaultDevice() + 1) % 64);
    ASSERT_TRUE(other);
    const Status status = comm.registerPool(*other);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::invalid);
  });
}

// Loads and stores per rank against the bounds of docs/performance.md: all-reduce 2 N, reduce-scatter N + N/p,
// all-gather with one load of the own block N/p + N, staged all-reduce 5 N - 2 N/p.
TEST(Registration, TrafficMeetsTheBounds) {
  constexpr int kSize = 4;
  // The algorithms whose bounds these are: which one is cheapest depends on what the probe measures.
  CommunicatorOptions options;
  options.algorithm =
      "allreduce=level0:two-shot/reducescatter=level0:two-shot/allgather=level0:push/alltoall=level0:pull";
  for (const Memory memory : {Memory::registered, Memory::unregistered}) {
    const auto body = [&](Communicator& comm) {
      const auto pool = poolFor(comm, memory);
      constexpr std::size_t kBytes = kSize * std::size_t{1} << 20;
      Buffer input(kBytes, pool), output(kBytes, pool);
      std::memset(input.data(), 0, kBytes);
      const auto traffic = [&](Kind kind) {
        const OperationCounters counters = countersOf(comm, kind);
        return counters.loadedBytes + counters.storedBytes;
      };
      ASSERT_OK(
          comm.run(Operation::allReduce(input.data(), output.data(), kBytes / 4, DataType::float32, ReduceOp::sum)));
      ASSERT_OK(comm.run(
          Operation::reduceScatter(input.data(), output.data(), kBytes / 4 / kSize, DataType::float32, ReduceOp::sum)));
      ASSERT_OK(comm.run(Operation::allGather(input.data(), output.data(), kBytes / kSize, DataType::byte)));
      ASSERT_OK(comm.run(Operation::allToAll(input.data(), output.data(), kBytes / kSize, DataType::byte)));
      const std::size_t part = kBytes / kSize;
      const bool zeroCopy = memory == Memory::registered;
      EXPECT_EQ(traffic(Kind::allReduce), zeroCopy ? 2 * kBytes : 5 * kBytes - 2 * part);
      EXPECT_EQ(traffic(Kind::reduceScatter), zeroCopy ? kBytes + part : 3 * kBytes - part);
      EXPECT_EQ(traffic(Kind::allGather), zeroCopy ? kBytes + part : 2 * kBytes + 2 * part);
      EXPECT_EQ(traffic(Kind::allToAll), zeroCopy ? 2 * kBytes : 4 * kBytes - 2 * part);
    };
    withRanks(kSize, body, options);
  }
}

}  // namespace
}  // namespace symccl::test
