// A rank against a peer whose records are made by hand: what cannot be is refused, and what is owed is paid first.
#include <array>

#include "lanes.hpp"
#include "raw_peer.hpp"

namespace symccl::test {
namespace {

/// Rank 0 has a lane; what rank 1 publishes is made here.
class RawPeerTest : public testing::Test {
 protected:
  void publish(const Record& record) { peer_.publish(record); }
  void expectCorrupt(const std::string& says) {
    std::vector<std::uint8_t> in(1 << 20);
    const RequestPtr request = lanes_.recv(0, in.data(), in.size(), 1, 0);
    EXPECT_TRUE(failsWith(request->wait(Deadline::never()), Code::corrupt, {"rank 1 published", says}));
    EXPECT_EQ(request->status().error().rank(), 1);
  }

  Lanes lanes_{2};
  RawPeer peer_{lanes_.groups(), 1};
};

TEST_F(RawPeerTest, InlineLongerThanARecord) {
  publish(send(Form::inlined, 41));
  expectCorrupt("41 B");
}
TEST_F(RawPeerTest, InlineCountThatDiffers) {
  Record record = send(Form::inlined, 8);
  record.count = 9;
  publish(record);
  expectCorrupt("8 B");
}
TEST_F(RawPeerTest, EagerSlot) {
  publish(send(Form::eager, 100, kEagerMessages));
  expectCorrupt("100 B");
}
TEST_F(RawPeerTest, EagerBytes) {
  publish(send(Form::eager, 4097, 0));
  expectCorrupt("4097 B");
}
TEST_F(RawPeerTest, LocatedPastTheHeap) {
  publish(send(Form::located, 4096, lanes_.heap().bytes() - 4095));
  expectCorrupt("4096 B");
}
TEST_F(RawPeerTest, LocatedWithOverflow) {
  publish(send(Form::located, 4096, ~std::uint64_t{0} - 100));
  expectCorrupt("4096 B");
}
TEST_F(RawPeerTest, LocatedLongerThanTheHeap) {
  publish(send(Form::located, ~std::uint64_t{0}, 4096));
  expectCorrupt("message of");
}
TEST_F(RawPeerTest, Form) {
  publish(send(static_cast<Form>(9), 100));
  expectCorrupt("form 9");
}
TEST_F(RawPeerTest, Tag) {
  Record record = send(Form::inlined, 4);
  record.tag = 0x80000000u;
  publish(record);
  expectCorrupt("tag 2147483648");
}
TEST_F(RawPeerTest, AckOfNothing) {
  publish(reply(RecordType::ack, 0, {7}, 1));
  expectCorrupt("an ACK of message 7");
}
TEST_F(RawPeerTest, AckOfTooMany) {
  publish(reply(RecordType::ack, 0, {1}, 6));
  expectCorrupt("an ACK of 6 messages");
}
TEST_F(RawPeerTest, AckOfAMessageThatIsNotCleared) {
  Buffer out(10000);
  const RequestPtr send = lanes_.send(0, out.data(), out.bytes(), 1, 0);
  publish(reply(RecordType::ack, 0, {1}, 1));
  expectCorrupt("an ACK of message 1");
}
TEST_F(RawPeerTest, ClearOfNothing) {
  publish(reply(RecordType::clear, 3));
  expectCorrupt("a CTS for message 3");
}
TEST_F(RawPeerTest, ClearTwice) {
  Buffer out(10000);
  const RequestPtr send = lanes_.send(0, out.data(), out.bytes(), 1, 0);
  publish(reply(RecordType::clear, 1));
  publish(reply(RecordType::clear, 1));
  expectCorrupt("a CTS for message 1");
}
TEST_F(RawPeerTest, DataForNothing) {
  publish(reply(RecordType::data, 2, {0, 100, 0}));
  expectCorrupt("for message 2");
}
TEST_F(RawPeerTest, DataOutsideTheMessageOrThePipes) {
  const std::array<std::array<std::uint64_t, 5>, 6> bodies{
      {{0, 600001, 0}, {0, kPipeHalf + 1, 0}, {1, 100, 0}, {0, 0, 0}, {0, 100, 8}, {~std::uint64_t{0}, 2, 0}}};
  for (const auto& body : bodies) {
    Lanes lanes(2);
    RawPeer peer(lanes.groups(), 1);
    std::vector<std::uint8_t> in(600000);
    const RequestPtr request = lanes.recv(0, in.data(), in.size(), 1, 0);
    peer.publish(send(Form::onDemand, 600000));
    peer.publish(reply(RecordType::data, 1, body));
    EXPECT_TRUE(failsWith(request->wait(Deadline::never()), Code::corrupt, {"for message 1"}))
        << body[0] << " " << body[1];
  }
}
TEST_F(RawPeerTest, ARecordOutOfOrder) {
  lanes_.group(1).ownArea().ring(0).records[0].sequence.publish(5);
  expectCorrupt("a record that cannot be");
}

TEST_F(RawPeerTest, AReceiveEndsWhenItsAckIsInTheRing) {
  // The peer takes nothing from its ring: 32 of these fill it, the others queue.
  std::uint64_t small = 3;
  std::vector<RequestPtr> sends;
  for (int i = 0; i < 40; ++i) sends.push_back(lanes_.send(0, &small, 8, 1, 0));
  EXPECT_TRUE(sends[31]->done());
  EXPECT_FALSE(sends[32]->done());
  const std::size_t offset = lanes_.group(1).place(1).areaOffset + lanes_.group(1).ownArea().layout().pipes;
  Buffer located(50000), eager(100);
  const RequestPtr needsAck = lanes_.recv(0, located.data(), located.bytes(), 1, 7);
  const RequestPtr needsNone = lanes_.recv(0, eager.data(), eager.bytes(), 1, 8);
  Record record = send(Form::located, 50000, offset);
  record.tag = 7;
  publish(record);
  record = send(Form::eager, 100);
  record.tag = 8;
  publish(record);
  std::uint64_t got = 0;
  const RequestPtr inlineNeedsAck = lanes_.recv(0, &got, sizeof got, 1, 9);
  publish(send(Form::inlinedOpen, 8, 44, 9));
  // The sender of an eager message waits for nothing, and may not be driving.
  EXPECT_TRUE(ends(needsNone));
  EXPECT_FALSE(needsAck->wait(Deadline::in(std::chrono::milliseconds(20))));
  EXPECT_FALSE(needsAck->done());
  auto& consumed = lanes_.group(1).ownArea().ring(0).consumed;
  consumed.publish(8);
  lanes_.group(0).wakeOwn();
  EXPECT_TRUE(ends(sends.back()));
  EXPECT_FALSE(needsAck->done());
  EXPECT_FALSE(inlineNeedsAck->done());
  consumed.publish(16);
  lanes_.group(0).wakeOwn();
  EXPECT_TRUE(ends(needsAck));
  EXPECT_TRUE(ends(inlineNeedsAck));
  EXPECT_EQ(got, 44u);
  EXPECT_EQ(needsAck->bytes(), 50000u);
}

TEST_F(RawPeerTest, RecordsRingTheirReceiverAloneIfItSleepsForTheirWriter) {
  Lanes lanes(4);
  const auto bell = [&](int rank) -> Bell& { return lanes.group(rank).ownArea().front().pointToPoint; };
  bell(1).asleep.publish(1 + 0);
  bell(2).asleep.publish(kAnyMember);
  bell(3).asleep.publish(1 + 1);  // for rank 1
  const auto rings = [&] { return std::array{bell(1).rings.read(), bell(2).rings.read(), bell(3).rings.read()}; };
  int value = 4;
  using Rings = std::array<std::uint32_t, 3>;
  EXPECT_TRUE(ends(lanes.send(0, &value, 4, 1, 0)));
  EXPECT_EQ(rings(), (Rings{1, 0, 0}));
  EXPECT_TRUE(ends(lanes.send(0, &value, 4, 2, 0)));
  EXPECT_EQ(rings(), (Rings{1, 1, 0}));
  EXPECT_TRUE(ends(lanes.send(0, &value, 4, 3, 0)));
  EXPECT_EQ(rings(), (Rings{1, 1, 0}));
}

TEST_F(RawPeerTest, TakingEightRecordsRingsTheWriter) {
  Bell& bell = lanes_.group(1).ownArea().front().pointToPoint;
  bell.asleep.publish(kAnyMember);
  std::uint64_t got = 0;
  Record record = send(Form::inlined, 8);
  for (std::uint32_t tag = 0; tag < 7; ++tag) {
    record.tag = tag;
    publish(record);
  }
  EXPECT_TRUE(ends(lanes_.recv(0, &got, 8, 1, 6)));
  EXPECT_EQ(bell.rings.read(), 0u);
  record.tag = 7;
  publish(record);
  EXPECT_TRUE(ends(lanes_.recv(0, &got, 8, 1, 7)));
  EXPECT_EQ(bell.rings.read(), 1u);
  EXPECT_EQ(lanes_.group(0).ownArea().ring(1).consumed.read(), 8u);
}

}  // namespace
}  // namespace symccl::test
