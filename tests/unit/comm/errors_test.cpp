// What bad calls get, on every rank, and what the group can do afterwards.

#include "unit/comm/memory_kinds.hpp"

namespace symccl::test {
namespace {

using std::chrono::milliseconds;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(CommErrors, MismatchNamesEveryCallOnEveryRank) {
  withRanks(3, [](Communicator& comm) {
    std::vector<float> data(2000);
    const Operation reduce = Operation::allReduce(data.data(), data.data(), 3, DataType::float32, ReduceOp::sum);
    const Operation broadcast = Operation::broadcast(data.data(), 2000, DataType::float32, 1);
    const Status status = comm.run(comm.rank() == 0 ? reduce : broadcast);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::mismatch);
    EXPECT_TRUE(contains(status.error().message(), "rank 0: all_reduce float32 x 3 sum")) << status.error().message();
    EXPECT_TRUE(contains(status.error().message(), "ranks 1, 2: broadcast float32 x 2000 root 1"))
        << status.error().message();
    // The program's order is broken: sticky.
    const Status later = comm.run(Operation::barrier());
    ASSERT_FALSE(later);
    EXPECT_EQ(later.error().code(), Code::mismatch);
  });
}

TEST(CommErrors, MismatchOfCountTypeOpAndRoot) {
  std::vector<double> data(4096);
  const auto all = [&](std::size_t count, DataType type, ReduceOp op) {
    return Operation::allReduce(data.data(), data.data(), count, type, op);
  };
  const std::pair<Operation, Operation> pairs[] = {
      {all(1000, DataType::float32, ReduceOp::sum), all(1001, DataType::float32, ReduceOp::sum)},
      {all(4, DataType::float32, ReduceOp::sum), all(4, DataType::int32, ReduceOp::sum)},
      {all(4, DataType::float32, ReduceOp::sum), all(4, DataType::float32, ReduceOp::max)},
      {all(4, DataType::float32, ReduceOp::sum), all(4000, DataType::float32, ReduceOp::sum)},
      {Operation::broadcast(data.data(), 9, DataType::byte, 0),
       Operation::broadcast(data.data(), 9, DataType::byte, 1)},
  };
  for (const auto& [first, second] : pairs) {
    std::vector<std::vector<double>> buffers(2, std::vector<double>(4096));
    withRanks(2, [&](Communicator& comm) {
      Operation operation = comm.rank() == 0 ? first : second;
      auto& own = buffers[static_cast<std::size_t>(comm.rank())];
      operation.send = operation.recv = own.data();
      const Status status = comm.run(operation);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), Code::mismatch);
    });
  }
}

TEST(CommErrors, DifferingBlockSizesReachEveryRank) {
  withRanks(3,
            [](Communicator& comm) {
              std::vector<unsigned char> out(64), in(64);
              std::vector<Block> send, recv;
              for (int peer = 0; peer < 3; ++peer) {
                send.push_back({out.data() + peer * 8, 8});
                recv.push_back({in.data() + peer * 8, comm.rank() == 1 && peer == 0 ? 7u : 8u});
              }
              const Status status = comm.run(Operation::allToAllV(send, recv, DataType::byte));
              ASSERT_FALSE(status);  // on rank 2 too, which is not concerned
              EXPECT_EQ(status.error().code(), Code::mismatch) << status.error().message();
              EXPECT_TRUE(contains(status.error().message(), "rank 0 sends 8 bytes to rank 1, which expects 7"))
                  << status.error().message();
              EXPECT_EQ(status.error().rank(), 0);
            },
            {"", milliseconds(20000)});
}

TEST(CommErrors, RefusedArgumentsUseNothingUp) {
  withRanks(2, [](Communicator& comm) {
    float value = 1;
    const std::pair<Operation, std::string> refused[] = {
        {Operation::allReduce(nullptr, &value, 1, DataType::float32, ReduceOp::sum), "null"},
        {Operation::broadcast(&value, 1, DataType::float32, 2), "root 2"},
        {Operation::broadcast(&value, 1, DataType::float32, -1), "root -1"},
        {Operation::allReduce(&value, &value, 1, DataType::float8_e5m2, ReduceOp::sum), "float8_e5m2"},
        {Operation::allReduce(&value, &value, 1, DataType::float32, ReduceOp::bitAnd), "float32"},
        {Operation::allReduce(&value, &value, ~std::size_t{0} / 2, DataType::float32, ReduceOp::sum), "count"},
        {Operation::allToAllV({}, {}, DataType::byte), "blocks"},
    };
    if (comm.rank() == 0) {
      for (const auto& [operation, part] : refused) {
        const Status status = comm.run(operation);
        ASSERT_FALSE(status);
        EXPECT_TRUE(contains(status.error().message(), part)) << status.error().message();
        const Status started = comm.start(operation).wait();
        ASSERT_FALSE(started);
      }
    }
    ASSERT_OK(comm.run(Operation::allReduce(&value, &value, 1, DataType::float32, ReduceOp::sum)));
    EXPECT_EQ(value, 2);
    EXPECT_EQ(comm.report().sequence, 1u);
  });
}

TEST(CommErrors, TimeoutNamesWhoDidNotCome) {
  std::atomic<int> gaveUp{0};
  withRanks(3, [&](Communicator& comm) {
    if (comm.rank() == 2) {
      while (gaveUp < 2) std::this_thread::sleep_for(milliseconds(5));
      const Status late = comm.run(Operation::barrier());
      ASSERT_FALSE(late);
      EXPECT_EQ(late.error().code(), Code::timeout);
      return;
    }
    const Status status = comm.run(Operation::barrier(), {milliseconds(100 + 10000 * comm.rank())});
    ++gaveUp;
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::timeout);
    EXPECT_TRUE(contains(status.error().message(), "rank 2")) << status.error().message();
  });
}

TEST(CommErrors, AbortEndsWaitsEverywhere) {
  for (const std::size_t count : {1, 1000, 1000000}) {
    withRanks(3, [&](Communicator& comm) {
      if (comm.rank() == 1) {
        comm.abort("enough");
        comm.abort("twice");
        EXPECT_EQ(comm.status().error().code(), Code::aborted);
        return;
      }
      std::vector<float> data(count);
      const Status status =
          comm.run(Operation::allReduce(data.data(), data.data(), count, DataType::float32, ReduceOp::sum));
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), Code::aborted);
      EXPECT_TRUE(contains(status.error().message(), "rank 1")) << status.error().message();
    });
  }
}

TEST(CommErrors, AbortByAnotherThreadOfTheWaiter) {
  withRanks(2, [](Communicator& comm) {
    if (comm.rank() == 1) return;  // never comes; its destruction says so at the latest
    std::thread other([&] {
      std::this_thread::sleep_for(milliseconds(30));
      comm.abort();
    });
    const Status status = comm.run(Operation::barrier());
    other.join();
    ASSERT_FALSE(status);
    EXPECT_TRUE(status.error().code() == Code::aborted || status.error().code() == Code::destroyed);
  });
}

TEST(CommErrors, DestroyedPeerEndsLaterOperationsOnly) {
  withRanks(2, [](Communicator& comm) {
    std::vector<float> data(100000, 1.0f);
    ASSERT_OK(comm.run(Operation::allReduce(data.data(), data.data(), data.size(), DataType::float32, ReduceOp::sum)));
    EXPECT_EQ(data.back(), 2.0f);
    if (comm.rank() == 1) return;
    const Status status = comm.run(Operation::barrier());
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::destroyed);
    EXPECT_TRUE(contains(status.error().message(), "rank 1")) << status.error().message();
  });
}

TEST(CommErrors, CreationChecksItsArguments) {
  const auto store = makeLocalStore();
  EXPECT_EQ(Communicator::create(*store, 2, 2).error().code(), Code::invalid);
  EXPECT_EQ(Communicator::create(*store, -1, 2).error().code(), Code::invalid);
  EXPECT_EQ(Communicator::create(*store, 0, 0).error().code(), Code::invalid);
  EXPECT_EQ(Communicator::create(*store, 0, 1, {"", milliseconds(1000)}).error().code(), Code::invalid);
  EXPECT_EQ(Communicator::create(*store, 0, 1, {"zero", milliseconds(0)}).error().code(), Code::invalid);
  EXPECT_EQ(Communicator::create(*store, 0, 1, {"device", milliseconds(1000), 64}).error().code(), Code::invalid);
}

TEST(CommErrors, SecondOfTheSameNameIsRefusedWhileTheFirstLives) {
  const auto store = makeLocalStore();
  auto first = Communicator::create(*store, 0, 1, {"twin", milliseconds(1000)});
  ASSERT_TRUE(first);
  auto second = Communicator::create(*store, 0, 1, {"twin", milliseconds(1000)});
  ASSERT_FALSE(second);
  EXPECT_TRUE(contains(second.error().message(), "twin"));
  first->reset();
  EXPECT_TRUE(Communicator::create(*store, 0, 1, {"twin", milliseconds(1000)}));
}

TEST(CommErrors, CreationNamesTheMissing) {
  const auto store = makeLocalStore();
  const std::string name = freshName();
  onThreads(2, [&](int rank) {
    auto comm = Communicator::create(*store, rank, 4, {name, milliseconds(300)});
    ASSERT_FALSE(comm);
    EXPECT_EQ(comm.error().code(), Code::timeout);
    EXPECT_TRUE(contains(comm.error().message(), "ranks 2, 3")) << comm.error().message();
  });
}

}  // namespace
}  // namespace symccl::test
