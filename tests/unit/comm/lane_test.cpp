// Order, threads and ends of queued operations.

#include <condition_variable>

#include "unit/comm/memory_kinds.hpp"

namespace symccl::test {
namespace {

TEST(Lane, StartedOperationsRunInOrder) {
  withRanks(3, [](Communicator& comm) {
    std::vector<std::int64_t> value(50);
    std::vector<Request> requests;
    for (std::size_t i = 0; i < value.size(); ++i) {
      value[i] = comm.rank() + static_cast<int>(i);
      requests.push_back(comm.start(Operation::allReduce(&value[i], &value[i], 1, DataType::int64, ReduceOp::sum)));
    }
    std::int64_t blocking = comm.rank();
    ASSERT_OK(comm.run(Operation::allReduce(&blocking, &blocking, 1, DataType::int64, ReduceOp::sum)));
    EXPECT_EQ(blocking, 3);
    for (std::size_t i = 0; i < value.size(); ++i) {
      EXPECT_TRUE(requests[i].done());  // a later blocking call ends after them
      ASSERT_OK(requests[i].wait());
      EXPECT_EQ(value[i], 3 + 3 * static_cast<std::int64_t>(i));
    }
  });
}

TEST(Lane, WorkerDrivesWhenNobodyWaits) {
  withRanks(2, [](Communicator& comm) {
    std::mutex mutex;
    std::condition_variable ended;
    bool done = false;
    std::thread::id where;
    int value = comm.rank();
    const Request request = comm.start(Operation::allReduce(&value, &value, 1, DataType::int32, ReduceOp::sum));
    request.onDone([&](const Status& status) {
      EXPECT_OK(status);
      std::lock_guard lock(mutex);
      where = std::this_thread::get_id();
      done = true;
      ended.notify_one();
    });
    std::unique_lock lock(mutex);
    ASSERT_TRUE(ended.wait_for(lock, std::chrono::seconds(30), [&] { return done; }));
    EXPECT_EQ(value, 1);
  });
}

TEST(Lane, WaitWithTimeoutEndsNothing) {
  std::atomic<bool> gaveUp{false};
  withRanks(2, [&](Communicator& comm) {
    int value = 1;
    if (comm.rank() == 0) {
      const Request request = comm.start(Operation::allReduce(&value, &value, 1, DataType::int32, ReduceOp::sum));
      const Status early = request.wait(std::chrono::milliseconds(20));
      gaveUp = true;
      ASSERT_FALSE(early);
      EXPECT_EQ(early.error().code(), Code::timeout);
      ASSERT_OK(request.wait());
    } else {
      while (!gaveUp) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ASSERT_OK(comm.run(Operation::allReduce(&value, &value, 1, DataType::int32, ReduceOp::sum)));
    }
    EXPECT_EQ(value, 2);
  });
}

TEST(Lane, BlocksOfQueuedOperationsAreCopied) {
  withRanks(2, [](Communicator& comm) {
    std::vector<unsigned char> out(2000, static_cast<unsigned char>(comm.rank() + 1)), in(2000);
    Request request;
    {
      std::vector<Block> send{{out.data(), 1000}, {out.data() + 1000, 1000}};
      std::vector<Block> recv{{in.data(), 1000}, {in.data() + 1000, 1000}};
      request = comm.start(Operation::allToAllV(send, recv, DataType::byte));
      std::fill(send.begin(), send.end(), Block{});
      std::fill(recv.begin(), recv.end(), Block{});
    }
    ASSERT_OK(request.wait());
    EXPECT_EQ(in[0], 1);
    EXPECT_EQ(in[1999], 2);
  });
}

TEST(Lane, ThreadsShareACommunicator) {
  withRanks(2, [](Communicator& comm) {
    // Equal operations, so that any order of the threads is the same call.
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          int value = 1;
          EXPECT_OK(comm.run(Operation::allReduce(&value, &value, 1, DataType::int32, ReduceOp::sum)));
          EXPECT_EQ(value, 2);
        }
      });
    }
    for (auto& thread : threads) thread.join();
  });
}

TEST(Lane, OpenOperationsEndWhenTheCommunicatorGoes) {
  const auto store = makeLocalStore();
  const std::string name = freshName();
  onThreads(2, [&](int rank) {
    auto comm = Communicator::create(*store, rank, 2, {name, std::chrono::seconds(60)});
    ASSERT_TRUE(comm);
    int value = 0;
    Request request;
    if (rank == 0) request = (*comm)->start(Operation::allReduce(&value, &value, 1, DataType::int32, ReduceOp::sum));
    comm->reset();
    if (rank == 0) {
      const Status status = request.wait();
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), Code::destroyed);
    }
  });
}

TEST(Lane, CallbackMayDestroyTheCommunicator) {
  const auto store = makeLocalStore();
  const std::string name = freshName();
  onThreads(2, [&](int rank) {
    auto created = Communicator::create(*store, rank, 2, {name, std::chrono::seconds(60)});
    ASSERT_TRUE(created);
    auto comm = std::make_shared<std::shared_ptr<Communicator>>(std::move(*created));
    std::mutex mutex;
    std::condition_variable ended;
    bool done = false;
    int value = 1;
    (*comm)
        ->start(Operation::allReduce(&value, &value, 1, DataType::int32, ReduceOp::sum))
        .onDone([&, comm](const Status&) {
          comm->reset();
          std::lock_guard lock(mutex);
          done = true;
          ended.notify_one();
        });
    std::unique_lock lock(mutex);
    ASSERT_TRUE(ended.wait_for(lock, std::chrono::seconds(30), [&] { return done; }));
  });
}

TEST(Lane, TwoCommunicatorsProgressInAnyOrder) {
  const auto store = makeLocalStore();
  const std::string first = freshName(), second = freshName();
  onThreads(2, [&](int rank) {
    auto a = Communicator::create(*store, rank, 2, {first, std::chrono::seconds(60)});
    auto b = Communicator::create(*store, rank, 2, {second, std::chrono::seconds(60)});
    ASSERT_TRUE(a && b);
    Communicator& one = rank == 0 ? **a : **b;
    Communicator& two = rank == 0 ? **b : **a;
    int x = 1, y = 2;
    const Request r1 = one.start(Operation::allReduce(&x, &x, 1, DataType::int32, ReduceOp::sum));
    const Request r2 = two.start(Operation::allReduce(&y, &y, 1, DataType::int32, ReduceOp::sum));
    ASSERT_OK(r1.wait());
    ASSERT_OK(r2.wait());
  });
}

TEST(Lane, ManyCommunicatorsComeAndGo) {
  withRanks(2, [](Communicator& world) {
    for (int i = 0; i < 100; ++i) {
      auto child = world.split(0, world.rank(), {freshName() + "-" + std::to_string(i), std::chrono::seconds(60)});
      ASSERT_TRUE(child) << child.error().message();
      int value = 1;
      ASSERT_OK((*child)->run(Operation::allReduce(&value, &value, 1, DataType::int32, ReduceOp::sum)));
      ASSERT_EQ(value, 2);
    }
  });
}

}  // namespace
}  // namespace symccl::test
