// The engine step by step: how much one step does, and what it looks at in between.
#include "p2p/engine.hpp"

#include "raw_peer.hpp"

namespace symccl::test {
namespace {

class EngineTest : public testing::Test {
 protected:
  static constexpr std::size_t kPiece = 256 << 10;

  std::shared_ptr<detail::RequestState> receive(void* data, std::size_t bytes, int tag) {
    OpenMessage open;
    open.message = {Message::Way::recv, data, bytes, 1, tag, true};
    open.request = std::make_shared<detail::RequestState>();
    open.number = ++number_;
    std::vector<OpenMessage> fresh{open};
    engine_.take(fresh);
    return open.request;
  }
  bool step() {
    bool moved = false;
    once([&](Poll poll) { moved = engine_.step(poll); });
    for (const EndedMessage& ended : engine_.takeEnded())
      ended.request->finish(ended.status, ended.source, ended.bytes);
    return moved;
  }
  std::uint64_t pipes() { return groups_[1].place(1).areaOffset + groups_[1].ownArea().layout().pipes; }

  GroupRanks groups_{2};
  Engine engine_{groups_[0]};
  RawPeer peer_{groups_, 1};
  std::uint64_t number_ = 0;
  std::vector<std::uint8_t> big_ = std::vector<std::uint8_t>(5 * kPiece), other_ = big_;
};

TEST_F(EngineTest, ASmallMessagePassesABigOneThatIsBeingCopied) {
  int small = 0;
  const auto big = receive(big_.data(), big_.size(), 0);
  const auto little = receive(&small, sizeof small, 1);
  peer_.publish(send(Form::located, big_.size(), pipes()));
  EXPECT_TRUE(step());
  EXPECT_FALSE(big->done());
  peer_.publish(send(Form::inlined, 4, 77, 1));
  EXPECT_TRUE(step());
  EXPECT_TRUE(little->done());
  EXPECT_EQ(small, 77);
  EXPECT_FALSE(big->done());
  for (int more = 2; more < 5; ++more) {
    EXPECT_FALSE(big->done()) << more;
    EXPECT_TRUE(step());
  }
  EXPECT_TRUE(big->done());
  EXPECT_FALSE(step());
}

TEST_F(EngineTest, BigMessagesTakeTurns) {
  const auto first = receive(big_.data(), big_.size(), 0);
  const auto second = receive(other_.data(), 2 * kPiece, 1);
  peer_.publish(send(Form::located, big_.size(), pipes()));
  peer_.publish(send(Form::located, 2 * kPiece, pipes(), 1));
  for (int turn = 0; turn < 4; ++turn) {
    EXPECT_FALSE(second->done()) << turn;
    EXPECT_TRUE(step());
  }
  EXPECT_TRUE(second->done());
  EXPECT_FALSE(first->done());
}

TEST_F(EngineTest, LooksAtTheErrorWordsBetweenPieces) {
  const auto big = receive(big_.data(), big_.size(), 0);
  peer_.publish(send(Form::located, big_.size(), pipes()));
  EXPECT_TRUE(step());
  const Error error = groups_[1].fail(Error(Code::aborted, "abort() was called"), -1, 0);
  EXPECT_FALSE(groups_[0].failed());
  EXPECT_TRUE(step());
  EXPECT_TRUE(groups_[0].failed());
  EXPECT_EQ(groups_[0].status().error().code(), error.code());
  engine_.fail(groups_[0].status().error());
  EXPECT_FALSE(engine_.busy());
}

}  // namespace
}  // namespace symccl::test
