// Ranks that fork: what their children may do, and that they disturb nobody.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "base/host.hpp"
#include "fault/survivors.hpp"
#include "fault/tripwire.hpp"

namespace symccl::test {
namespace {

/// Starts `body` in a child of this rank.
pid_t startChild(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(80);
  body();
  std::fflush(nullptr);
  std::exit(testing::Test::HasFailure() ? 1 : 0);  // as a worker of Python's multiprocessing ends, destructors and all
}
void expectChildPasses(pid_t child) {
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

TEST(Forked, AChildCannotUseItsParentsCommunicator) {
  onProcesses(2, [](RankProcess& process) {
    auto comm = process.join();
    const auto pool = poolFor(*comm, Memory::registered);
    checkAllKinds(*comm, pool, 5000, 1);
    expectChildPasses(startChild([&] {
      float value = 1;
      const Operation sum = Operation::allReduce(&value, &value, 1, DataType::float32, ReduceOp::sum);
      const auto fresh = Pool::create();
      ASSERT_TRUE(fresh) << fresh.error().message();
      const Status refused[] = {comm->run(sum),
                                comm->start(sum).wait(),
                                comm->send(&value, 4, 1 - process.rank()).wait(),
                                comm->recv(&value, 4, 1 - process.rank()).wait(),
                                comm->registerPool(*fresh),
                                comm->status(),
                                Status(comm->split(0, 0, {"split", 1s}).error())};
      for (const Status& status : refused) {
        ASSERT_FALSE(status);
        EXPECT_EQ(status.error().code(), Code::forked) << status.error().message();
        EXPECT_CONTAINS(status.error().message(), "parent");
      }
      comm->abort("by a child");
      (void)comm->report();
      comm.reset();
    }));
    checkAllKinds(*comm, pool, 5000, 1);
    checkAllKinds(*comm, nullptr, 300007, 0);
  });
}

TEST(Forked, AChildMayReadAndFreeInheritedMemory) {
  onProcesses(2, [](RankProcess& process) {
    const auto comm = process.join();
    const auto pool = poolFor(*comm, Memory::registered);
    auto* data = static_cast<std::int32_t*>(*pool->allocate(100000));
    for (std::size_t i = 0; i < 25000; ++i) data[i] = element(process.rank(), i);
    expectChildPasses(startChild([&] {
      for (std::size_t i = 0; i < 25000; ++i) ASSERT_EQ(data[i], element(process.rank(), i));
      const auto refused = pool->allocate(4096);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code(), Code::forked) << refused.error().message();
      pool->free(data);
      EXPECT_TRUE(Pool::freeAnywhere(data)) << "it is a heap's";
    }));
    for (std::size_t i = 0; i < 25000; ++i) ASSERT_EQ(data[i], element(process.rank(), i));
    ASSERT_OK(comm->run(Operation::allReduce(data, data, 25000, DataType::int32, ReduceOp::sum)));
    for (std::size_t i = 0; i < 25000; ++i) ASSERT_EQ(data[i], element(0, i) + element(1, i));
    EXPECT_EQ(countersOf(*comm, Kind::allReduce).zeroCopy, 1u);
    pool->free(data);
  });
}

TEST(Forked, ChildrenMakeACommunicatorOfTheirOwn) {
  onProcesses(3, [](RankProcess& process) {
    const auto comm = process.join();
    checkAllKinds(*comm, poolFor(*comm, Memory::registered), 5000, 1);
    const pid_t child = startChild([&] {
      const auto own = process.join("children");
      EXPECT_EQ(own->pids()[static_cast<std::size_t>(process.rank())], ::getpid());
      checkAllKinds(*own, nullptr, 5000, 1);
      checkAllKinds(*own, poolFor(*own, Memory::registered), 70000, 2);
      // The same name as the parent's.
      checkAllKinds(*process.join("world"), nullptr, 1025, 0);
    });
    for (int round = 0; round < 5; ++round) checkAllKinds(*comm, nullptr, 5000, 1);
    expectChildPasses(child);
    checkAllKinds(*comm, nullptr, 300007, 2);
  });
}

// A data loader's worker holds everything that it inherited, and outlives the rank.
TEST(Forked, AChildDoesNotHideTheDeathOfItsParent) {
  constexpr int kVictim = 1;
  for (const bool runsAnotherProgram : {false, true}) {
    const auto body = [=](RankProcess& process) {
      auto comm = process.join();
      checkAllKinds(*comm, poolFor(*comm, Memory::registered), 5000, 1);
      if (process.rank() == kVictim) {
        process.word(0) = startChild([&] {
          if (runsAnotherProgram) ::execlp("sleep", "sleep", "60", nullptr);
          for (;;) ::pause();
        });
        process.meet(0);
        die();
      }
      process.meet(0);
      expectGone(comm->run(Operation::barrier()), process, kVictim);
      process.meet(1, 2);
      EXPECT_STRNE(processState(static_cast<int>(process.word(0))), "is gone") << "the child lives";
      goOn(process, comm, {0, 2});
      process.meet(2, 2);
      if (process.rank() == 2) return;
      EXPECT_EQ(::kill(static_cast<pid_t>(process.word(0)), SIGKILL), 0);
    };
    onProcesses(3, body, {kVictim});
  }
}

// Forks at any moment, while threads of the rank are inside the library.
TEST(Forked, WhileOperationsAreUnderWay) {
  onProcesses(2, [](RankProcess& process) {
    const auto comm = process.join();
    const auto other = process.join("other");
    std::atomic<bool> stop{false};
    std::vector<std::int32_t> data(20000);
    std::thread collectives([&] {
      for (int i = 0; i < 200; ++i)
        EXPECT_OK(comm->run(Operation::allReduce(data.data(), data.data(), 20000, DataType::int32, ReduceOp::max)));
      stop = true;
    });
    std::thread messages([&] {
      std::vector<unsigned char> out(70000), in(70000);
      for (int i = 0; i < 100; ++i) {
        const Request received = other->recv(in.data(), in.size(), 1 - process.rank());
        EXPECT_OK(other->send(out.data(), out.size(), 1 - process.rank()).wait());
        EXPECT_OK(received.wait());
      }
    });
    std::thread creations([&] {
      while (!stop) EXPECT_TRUE(Communicator::create(process.store(), 0, 1, {"alone", 60s}));
    });
    int children = 0;
    do {
      const pid_t child = startChild([&] {
        EXPECT_EQ(comm->status().error().code(), Code::forked);
        const auto pool = Pool::create();
        ASSERT_TRUE(pool);
        EXPECT_TRUE((*pool)->allocate(4096));
        EXPECT_TRUE(Communicator::create(process.store(), 0, 1, {"alone", 60s}));
      });
      expectChildPasses(child);
    } while (++children < 5 || !stop);
    collectives.join();
    messages.join();
    creations.join();
    checkAllKinds(*comm, nullptr, 5000, 1);
  });
}

}  // namespace
}  // namespace symccl::test
