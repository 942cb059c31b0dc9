// Every uniform collective: values, guards and path, for ranks, counts and memory of every kind.

#include <tuple>

#include "unit/comm/memory_kinds.hpp"

namespace symccl::test {
namespace {

constexpr std::size_t kCounts[] = {0, 1, 2, 3, 11, 12, 13, 127, 1023, 1024, 1025, 4099, 65537, 262144 + 7, 786433};

class Collectives : public testing::TestWithParam<std::tuple<int, Memory>> {
 protected:
  int size() const { return std::get<0>(GetParam()); }
  Memory memory() const { return std::get<1>(GetParam()); }
  void forEachCount(const std::function<void(Communicator&, std::shared_ptr<Pool>, std::size_t)>& body) const {
    withRanks(size(), [&](Communicator& communicator) {
      const auto pool = poolFor(communicator, memory());
      for (std::size_t count : kCounts) body(communicator, pool, count);
    });
  }
  // Where inputs do not fit a slot, the path follows from the memory alone.
  void expectPath(Communicator& communicator, Kind kind) const {
    if (size() == 1) return;
    const OperationCounters counters = countersOf(communicator, kind);
    EXPECT_GT(counters.inlined, 0u);
    EXPECT_GT(counters.eager, 0u);
    EXPECT_EQ(counters.zeroCopy > 0, memory() == Memory::registered);
    EXPECT_EQ(counters.staged > 0, memory() == Memory::unregistered);
  }
};

void fill(std::int32_t* data, std::size_t count, int rank, std::size_t from = 0) {
  for (std::size_t i = 0; i < count; ++i) data[i] = element(rank, from + i);
}

TEST_P(Collectives, AllReduce) {
  for (const bool inPlace : {false, true}) {
    forEachCount([&](Communicator& comm, const std::shared_ptr<Pool>& pool, std::size_t count) {
      Buffer input(count * 4, pool), output(count * 4, pool);
      auto* send = input.as<std::int32_t>();
      auto* recv = inPlace ? send : output.as<std::int32_t>();
      fill(send, count, comm.rank());
      ASSERT_OK(comm.run(Operation::allReduce(send, recv, count, DataType::int32, ReduceOp::sum)));
      for (std::size_t i = 0; i < count; ++i) {
        std::int32_t sum = 0;
        for (int rank = 0; rank < comm.size(); ++rank) sum += element(rank, i);
        ASSERT_EQ(recv[i], sum) << "element " << i << " of " << count;
      }
      if (count == kCounts[std::size(kCounts) - 1]) expectPath(comm, Kind::allReduce);
    });
  }
}

TEST_P(Collectives, Reduce) {
  forEachCount([&](Communicator& comm, const std::shared_ptr<Pool>& pool, std::size_t count) {
    const int root = static_cast<int>(count % static_cast<std::size_t>(comm.size()));
    const bool isRoot = comm.rank() == root;
    Buffer input(count * 4, pool), output(isRoot ? count * 4 : 0, pool);
    fill(input.as<std::int32_t>(), count, comm.rank());
    ASSERT_OK(comm.run(Operation::reduce(input.data(), isRoot ? output.data() : nullptr, count, DataType::int32,
                                         ReduceOp::max, root)));
    for (std::size_t i = 0; isRoot && i < count; ++i) {
      ASSERT_EQ(output.as<std::int32_t>()[i], element(comm.size() - 1, i)) << "element " << i << " of " << count;
    }
  });
}

TEST_P(Collectives, Broadcast) {
  forEachCount([&](Communicator& comm, const std::shared_ptr<Pool>& pool, std::size_t count) {
    const int root = static_cast<int>((count + 1) % static_cast<std::size_t>(comm.size()));
    Buffer buffer(count * 4, pool);
    if (comm.rank() == root) fill(buffer.as<std::int32_t>(), count, root);
    ASSERT_OK(comm.run(Operation::broadcast(buffer.data(), count, DataType::int32, root)));
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(buffer.as<std::int32_t>()[i], element(root, i));
  });
}

TEST_P(Collectives, AllGather) {
  for (const bool inPlace : {false, true}) {
    forEachCount([&](Communicator& comm, const std::shared_ptr<Pool>& pool, std::size_t count) {
      const auto size = static_cast<std::size_t>(comm.size());
      Buffer input(count * 4, pool), output(size * count * 4, pool);
      auto* send = inPlace ? output.as<std::int32_t>() + static_cast<std::size_t>(comm.rank()) * count
                           : input.as<std::int32_t>();
      fill(send, count, comm.rank());
      ASSERT_OK(comm.run(Operation::allGather(send, output.data(), count, DataType::int32)));
      for (std::size_t i = 0; i < size * count; ++i) {
        ASSERT_EQ(output.as<std::int32_t>()[i], element(static_cast<int>(i / count), i % count));
      }
    });
  }
}

TEST_P(Collectives, ReduceScatter) {
  for (const bool inPlace : {false, true}) {
    forEachCount([&](Communicator& comm, const std::shared_ptr<Pool>& pool, std::size_t count) {
      const auto size = static_cast<std::size_t>(comm.size()), rank = static_cast<std::size_t>(comm.rank());
      Buffer input(size * count * 4, pool), output(count * 4, pool);
      fill(input.as<std::int32_t>(), size * count, comm.rank());
      auto* recv = inPlace ? input.as<std::int32_t>() + rank * count : output.as<std::int32_t>();
      ASSERT_OK(comm.run(Operation::reduceScatter(input.data(), recv, count, DataType::int32, ReduceOp::sum)));
      for (std::size_t i = 0; i < count; ++i) {
        std::int32_t sum = 0;
        for (int peer = 0; peer < comm.size(); ++peer) sum += element(peer, rank * count + i);
        ASSERT_EQ(recv[i], sum) << "element " << i << " of " << count;
      }
    });
  }
}

TEST_P(Collectives, AllToAll) {
  for (const bool inPlace : {false, true}) {
    forEachCount([&](Communicator& comm, const std::shared_ptr<Pool>& pool, std::size_t count) {
      const auto size = static_cast<std::size_t>(comm.size()), rank = static_cast<std::size_t>(comm.rank());
      Buffer input(size * count * 4, pool), output(size * count * 4, pool);
      fill(input.as<std::int32_t>(), size * count, comm.rank());
      auto* recv = inPlace ? input.as<std::int32_t>() : output.as<std::int32_t>();
      ASSERT_OK(comm.run(Operation::allToAll(input.data(), recv, count, DataType::int32)));
      for (std::size_t i = 0; i < size * count; ++i) {
        ASSERT_EQ(recv[i], element(static_cast<int>(i / count), rank * count + i % count))
            << "element " << i << " of " << count;
      }
    });
  }
}

TEST_P(Collectives, Gather) {
  forEachCount([&](Communicator& comm, const std::shared_ptr<Pool>& pool, std::size_t count) {
    const auto size = static_cast<std::size_t>(comm.size());
    const int root = static_cast<int>(count % size);
    const bool isRoot = comm.rank() == root;
    Buffer input(count * 4, pool), output(isRoot ? size * count * 4 : 0, pool);
    fill(input.as<std::int32_t>(), count, comm.rank());
    ASSERT_OK(
        comm.run(Operation::gather(input.data(), isRoot ? output.data() : nullptr, count, DataType::int32, root)));
    for (std::size_t i = 0; isRoot && i < size * count; ++i) {
      ASSERT_EQ(output.as<std::int32_t>()[i], element(static_cast<int>(i / count), i % count));
    }
  });
}

TEST_P(Collectives, Scatter) {
  forEachCount([&](Communicator& comm, const std::shared_ptr<Pool>& pool, std::size_t count) {
    const auto size = static_cast<std::size_t>(comm.size()), rank = static_cast<std::size_t>(comm.rank());
    const int root = static_cast<int>(count % size);
    const bool isRoot = comm.rank() == root;
    Buffer input(isRoot ? size * count * 4 : 0, pool), output(count * 4, pool);
    if (isRoot) fill(input.as<std::int32_t>(), size * count, root);
    ASSERT_OK(
        comm.run(Operation::scatter(isRoot ? input.data() : nullptr, output.data(), count, DataType::int32, root)));
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(output.as<std::int32_t>()[i], element(root, rank * count + i));
  });
}

TEST_P(Collectives, Barrier) {
  std::atomic<int> arrived{0};
  withRanks(size(), [&](Communicator& comm) {
    for (int round = 1; round <= 50; ++round) {
      ++arrived;
      ASSERT_OK(comm.run(Operation::barrier()));
      ASSERT_GE(arrived.load(), round * comm.size());
      ASSERT_OK(comm.run(Operation::barrier()));
    }
  });
}

std::string nameOfCase(const testing::TestParamInfo<std::tuple<int, Memory>>& info) {
  return std::to_string(std::get<0>(info.param)) +
         (std::get<1>(info.param) == Memory::registered ? "registered" : "private");
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives,
                         testing::Combine(testing::Values(1, 2, 3, 5, 8),
                                          testing::Values(Memory::unregistered, Memory::registered)),
                         nameOfCase);

// Random floats: whatever the path, the place and the alignment, every rank gets the same bits.
TEST(CollectiveBits, EqualOnAllRanksAndPaths) {
  constexpr int kSize = 3;
  constexpr std::size_t kCount = 300007;
  const auto value = [](int rank, std::size_t i) {
    std::uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + static_cast<std::uint64_t>(rank) * 0xbf58476d1ce4e5b9ull;
    x ^= x >> 29;
    return static_cast<float>(static_cast<double>(x % 2000003) / 7.0 - 100000.0);
  };
  std::vector<std::vector<float>> results;
  std::mutex mutex;
  for (const Memory memory : {Memory::unregistered, Memory::registered}) {
    for (const std::size_t shift : {0, 4, 1}) {
      withRanks(kSize, [&](Communicator& comm) {
        const auto pool = poolFor(comm, memory);
        Buffer input(kCount * 4, pool, shift), output(kCount * 4, pool, 64 - shift);
        for (std::size_t i = 0; i < kCount; ++i) {
          const float element = value(comm.rank(), i);
          std::memcpy(static_cast<char*>(input.data()) + i * 4, &element, 4);
        }
        ASSERT_OK(
            comm.run(Operation::allReduce(input.data(), output.data(), kCount, DataType::float32, ReduceOp::sum)));
        std::vector<float> result(kCount);
        std::memcpy(result.data(), output.data(), kCount * 4);
        std::lock_guard lock(mutex);
        results.push_back(std::move(result));
      });
    }
  }
  ASSERT_EQ(results.size(), 2u * 3u * kSize);
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(results[0][i], (value(0, i) + value(1, i)) + value(2, i)) << "not summed in rank order at " << i;
  }
  for (const auto& result : results) ASSERT_EQ(std::memcmp(result.data(), results[0].data(), kCount * 4), 0);
}

TEST(CollectiveSizes, GroupLinesAboveSixteenRanks) {
  for (const int size : {17, 33}) {
    withRanks(size, [&](Communicator& comm) {
      for (const std::size_t count : {1, 500, 70000}) {
        std::vector<std::int64_t> data(count);
        for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<std::int64_t>(i) + comm.rank();
        ASSERT_OK(comm.run(Operation::allReduce(data.data(), data.data(), count, DataType::int64, ReduceOp::sum)));
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(data[i], static_cast<std::int64_t>(i) * comm.size() + comm.size() * (comm.size() - 1) / 2);
        }
      }
    });
  }
}

TEST(CollectiveReductions, PremulSumTakesEachRanksFactor) {
  for (const std::size_t count : {1, 700, 100001}) {
    withRanks(3, [&](Communicator& comm) {
      std::vector<double> data(count);
      for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<double>(i) + comm.rank();
      Operation operation =
          Operation::allReduce(data.data(), data.data(), count, DataType::float64, ReduceOp::premulSum);
      ASSERT_OK(comm.run(operation.withFactor(comm.rank() + 1)));
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], static_cast<double>(i) * 6 + 2 + 6);
    });
  }
}

TEST(CollectiveReductions, AverageDividesOnce) {
  withRanks(3, [&](Communicator& comm) {
    std::vector<float> data(100001);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i) + static_cast<float>(comm.rank());
    ASSERT_OK(
        comm.run(Operation::allReduce(data.data(), data.data(), data.size(), DataType::float32, ReduceOp::average)));
    for (std::size_t i = 0; i < data.size(); ++i) {
      const float sum = (static_cast<float>(i) + (static_cast<float>(i) + 1)) + (static_cast<float>(i) + 2);
      ASSERT_EQ(data[i], sum / 3);
    }
  });
}

}  // namespace
}  // namespace symccl::test
