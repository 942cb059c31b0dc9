// Communicators made from communicators.

#include "unit/comm/memory_kinds.hpp"

namespace symccl::test {
namespace {

CommunicatorOptions named(const std::string& name) { return {name, std::chrono::seconds(60)}; }

TEST(Split, ColorsAndKeys) {
  const std::string name = freshName();
  withRanks(5, [&](Communicator& world) {
    const int color = world.rank() % 2;
    auto child = world.split(color, -world.rank(), named(name + std::to_string(color)));
    ASSERT_TRUE(child) << child.error().message();
    EXPECT_EQ((*child)->size(), color == 0 ? 3 : 2);
    EXPECT_EQ((*child)->rank(), (*child)->size() - 1 - world.rank() / 2);  // descending by key
    std::vector<int> ranks(static_cast<std::size_t>((*child)->size()));
    const int mine = world.rank();
    ASSERT_OK((*child)->run(Operation::allGather(&mine, ranks.data(), 1, DataType::int32)));
    for (std::size_t i = 0; i + 1 < ranks.size(); ++i) EXPECT_EQ(ranks[i], ranks[i + 1] + 2);
    ASSERT_OK(world.run(Operation::barrier()));
  });
}

TEST(Split, NegativeColorIsNone) {
  const std::string name = freshName();
  withRanks(3, [&](Communicator& world) {
    auto child = world.split(world.rank() == 1 ? -1 : 4, 0, named(name));
    ASSERT_TRUE(child);
    if (world.rank() == 1) {
      EXPECT_EQ(*child, nullptr);
    } else {
      EXPECT_EQ((*child)->size(), 2);
      ASSERT_OK((*child)->run(Operation::barrier()));
    }
  });
}

TEST(Split, GrandchildrenAndParentsWorkBesideEachOther) {
  const std::string name = freshName();
  withRanks(4, [&](Communicator& world) {
    auto half = world.split(world.rank() / 2, 0, named(name + "h" + std::to_string(world.rank() / 2)));
    ASSERT_TRUE(half);
    auto one = (*half)->split((*half)->rank(), 0, named(name + "o" + std::to_string(world.rank())));
    ASSERT_TRUE(one);
    EXPECT_EQ((*one)->size(), 1);
    for (int i = 0; i < 20; ++i) {
      int value = 1;
      ASSERT_OK((*half)->run(Operation::allReduce(&value, &value, 1, DataType::int32, ReduceOp::sum)));
      EXPECT_EQ(value, 2);
      ASSERT_OK((*one)->run(Operation::allReduce(&value, &value, 1, DataType::int32, ReduceOp::sum)));
      EXPECT_EQ(value, 2);
      ASSERT_OK(world.run(Operation::allReduce(&value, &value, 1, DataType::int32, ReduceOp::sum)));
      EXPECT_EQ(value, 8);
    }
  });
}

TEST(Split, ChildOutlivesParent) {
  const auto store = makeLocalStore();
  const std::string name = freshName();
  onThreads(2, [&](int rank) {
    auto world = Communicator::create(*store, rank, 2, named(name));
    ASSERT_TRUE(world);
    auto child = (*world)->split(0, rank, named(name + "-child"));
    ASSERT_TRUE(child);
    world->reset();
    std::vector<float> data(100000, 1.0f);
    ASSERT_OK(
        (*child)->run(Operation::allReduce(data.data(), data.data(), data.size(), DataType::float32, ReduceOp::sum)));
    EXPECT_EQ(data[77777], 2.0f);
  });
}

}  // namespace
}  // namespace symccl::test
