// Ranks that leave - exit, destroy their end, abort - while others are still inside.

#include "fault/survivors.hpp"
#include "fault/tripwire.hpp"

namespace symccl::test {
namespace {

constexpr int kVictim = 1;

Operation sumOf(Buffer& buffer, std::size_t count) {
  return Operation::allReduce(buffer.data(), buffer.data(), count, DataType::int32, ReduceOp::sum);
}

// A rank that exits after its last call does not break a slower one, which is still in it.
TEST(Leaving, ExitAfterTheLastOperation) {
  for (const bool destroys : {false, true}) {
    onProcesses(3, [=](RankProcess& process) {
      constexpr std::size_t kCount = 1 << 18;  // one staged slice: no rank waits for the last copies of another
      auto comm = process.join();
      Buffer in(kCount * sizeof(std::int32_t), nullptr), out(3 * kCount * sizeof(std::int32_t), nullptr);
      for (std::size_t i = 0; i < kCount; ++i) in.as<std::int32_t>()[i] = element(process.rank(), i);
      const Operation gather = Operation::allGather(in.data(), out.data(), kCount, DataType::int32);
      if (process.rank() == 2) {
        // What it gets from rank 0 it copies when the others have left.
        Tripwire wire(out.as<std::int32_t>() + kCount / 2, [&] {
          process.awaitState(0, "is gone");
          process.awaitState(1, "is gone");
        });
        EXPECT_OK(comm->run(gather));
      } else {
        EXPECT_OK(comm->run(gather));
      }
      for (std::size_t i = 0; i < 3 * kCount; ++i)
        ASSERT_EQ(out.as<std::int32_t>()[i], element(static_cast<int>(i / kCount), i % kCount)) << "element " << i;
      if (process.rank() == 2) {
        const Status status = comm->run(Operation::barrier());
        ASSERT_FALSE(status) << "this one needs them";
        EXPECT_TRUE(status.error().code() == (destroys ? Code::destroyed : Code::dead)) << status.error().message();
      } else if (!destroys) {
        new std::shared_ptr<Communicator>(comm);  // to the end of the process
      }
    });
  }
}

// The root waits for the slow rank 2; that rank 1 is done and has left is no reason to give up.
TEST(Leaving, ALeafLeavesWhileTheRootWaitsForAnother) {
  for (const bool destroys : {false, true}) {
    onProcesses(3, [=](RankProcess& process) {
      constexpr std::size_t kCount = 1 << 16;
      auto comm = process.join();
      const auto pool = poolFor(*comm, Memory::registered);
      Buffer in(3 * kCount * sizeof(std::int32_t), pool), out(kCount * sizeof(std::int32_t), nullptr);
      for (std::size_t i = 0; i < 3 * kCount; ++i) in.as<std::int32_t>()[i] = element(process.rank(), i);
      const Operation scatter = Operation::scatter(in.data(), out.data(), kCount, DataType::int32, 0);
      if (process.rank() == 2) {
        Tripwire wire(out.as<std::int32_t>() + kCount / 2, [&] {
          if (destroys) {
            process.meet(0, 2);
          } else {
            process.awaitState(1, "is gone");
          }
          std::this_thread::sleep_for(100ms);  // the root has time to notice
        });
        EXPECT_OK(comm->run(scatter));
      } else {
        EXPECT_OK(comm->run(scatter));
      }
      for (std::size_t i = 0; i < kCount; ++i) {
        const std::size_t index = static_cast<std::size_t>(process.rank()) * kCount + i;
        ASSERT_EQ(out.as<std::int32_t>()[i], element(0, index)) << "element " << i;
      }
      EXPECT_EQ(countersOf(*comm, Kind::scatter).zeroCopy, 1u);
      if (process.rank() != 1) {
        process.meet(1, 2);
      } else if (destroys) {
        comm.reset();
        process.meet(0, 2);
      } else {
        new std::shared_ptr<Communicator>(comm);
      }
    });
  }
}

// Its area must not be used again while another rank is still at it.
TEST(Leaving, DestroyAndCreateWhileAPeerIsStillInside) {
  onProcesses(2, [](RankProcess& process) {
    constexpr std::size_t kCount = 1 << 18;
    auto comm = process.join("first");
    auto other = process.join("other");
    Buffer in(kCount * sizeof(std::int32_t), nullptr), out(2 * kCount * sizeof(std::int32_t), nullptr);
    for (std::size_t i = 0; i < kCount; ++i) in.as<std::int32_t>()[i] = element(process.rank(), i);
    const Operation gather = Operation::allGather(in.data(), out.data(), kCount, DataType::int32);
    if (process.rank() == 1) {
      Tripwire wire(out.as<std::int32_t>() + kCount / 2, [&] { process.meet(0); });
      EXPECT_OK(comm->run(gather));
    } else {
      EXPECT_OK(comm->run(gather));
      comm.reset();
      // Would take the place of the area, zero it, and write to its staging, if it could.
      auto alone = Communicator::create(process.store(), 0, 1, {"alone", 60s});
      ASSERT_TRUE(alone);
      std::vector<std::shared_ptr<Communicator>> more;
      for (int i = 0; i < 3; ++i) {
        auto split = (*alone)->split(0, 0, {"split " + std::to_string(i), 60s});
        ASSERT_TRUE(split);
        more.push_back(*split);
      }
      process.meet(0);
    }
    for (std::size_t i = 0; i < 2 * kCount; ++i)
      ASSERT_EQ(out.as<std::int32_t>()[i], element(static_cast<int>(i / kCount), i % kCount)) << "element " << i;
    EXPECT_OK(other->run(Operation::barrier()));
  });
}

TEST(Leaving, DestroyWhilePeersWait) {
  onProcesses(3, [](RankProcess& process) {
    auto comm = process.join();
    ASSERT_OK(comm->run(Operation::barrier()));
    if (process.rank() == kVictim) {
      process.meet(0);
      std::this_thread::sleep_for(50ms);
      comm.reset();
      process.meet(1);
    } else {
      const Request request = comm->start(Operation::barrier());
      process.meet(0);
      const Status status = request.wait();
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), Code::destroyed);
      EXPECT_CONTAINS(status.error().message(), "rank 1 destroyed its end");
      process.meet(1);
    }
    EXPECT_OK(process.join("again")->run(Operation::barrier()));
    process.meet(2);
  });
}

TEST(Abort, ByAnotherProcessEndsAWaitAndACopy) {
  for (const bool inTheCopy : {false, true}) {
    onProcesses(3, [=](RankProcess& process) {
      constexpr std::size_t kCount = 1 << 20;
      auto comm = process.join();
      const auto pool = poolFor(*comm, Memory::registered);
      Buffer buffer(kCount * sizeof(std::int32_t), pool);
      ASSERT_OK(comm->run(sumOf(buffer, kCount)));
      if (process.rank() == kVictim) {
        if (inTheCopy) {
          Tripwire wire(buffer.as<std::int32_t>() + kCount / 2, [&] { comm->abort("enough"); });
          EXPECT_FALSE(comm->run(sumOf(buffer, kCount)));
        } else {
          process.meet(0);
          comm->abort("enough");
        }
        EXPECT_CONTAINS(comm->status().error().message(), "enough");
      } else {
        const Request request = comm->start(sumOf(buffer, kCount));
        if (!inTheCopy) process.meet(0);
        const Status status = request.wait();
        ASSERT_FALSE(status);
        EXPECT_EQ(status.error().code(), Code::aborted);
        EXPECT_CONTAINS(status.error().message(), "rank 1 aborted the communicator");
      }
      process.meet(1);
      goOn(process, comm, {0, 1, 2});
    });
  }
}

}  // namespace
}  // namespace symccl::test
