#include "p2p/ring.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "raw_peer.hpp"

namespace symccl::test {
namespace {

class RingTest : public testing::Test {
 protected:
  RingTest() { std::memset(static_cast<void*>(rings_.get()), 0, 2 * sizeof(Ring)); }

  Look put(std::uint64_t number) {
    Look room{};
    once([&](Poll poll) { room = writer_.room(poll); });
    if (room != Look::ready) return room;
    Record record;
    record.type = RecordType::send;
    record.form = Form::eager;
    record.count = static_cast<std::uint8_t>(number % 251);
    record.tag = static_cast<std::uint32_t>(number * 7);
    record.number = number;
    record.body = {number + 1, number + 2, number + 3, number + 4, number + 5};
    writer_.put(record);
    return room;
  }
  Look take(Record& record) {
    Look look{};
    once([&](Poll poll) { look = reader_.take(poll, record); });
    return look;
  }

  std::unique_ptr<Ring[]> rings_{new Ring[2]};  // [0] in the writer's area, [1] in the reader's
  RingWriter writer_{rings_[0], rings_[1].consumed};
  RingReader reader_{rings_[0], rings_[1].consumed};
};

TEST_F(RingTest, CarriesEveryFieldInOrderRoundAndRound) {
  Record record;
  EXPECT_EQ(take(record), Look::nothing);
  std::uint64_t put_ = 0;
  for (std::uint64_t taken = 0; taken < 1000; ++taken) {
    while (put_ < taken + 1 + taken % 20) ASSERT_EQ(put(++put_), Look::ready);
    ASSERT_EQ(take(record), Look::ready);
    const std::uint64_t number = taken + 1;
    EXPECT_EQ(record.type, RecordType::send);
    EXPECT_EQ(record.form, Form::eager);
    EXPECT_EQ(record.count, number % 251);
    EXPECT_EQ(record.tag, number * 7);
    EXPECT_EQ(record.number, number);
    for (std::size_t word = 0; word < record.body.size(); ++word) EXPECT_EQ(record.body[word], number + 1 + word);
  }
}

TEST_F(RingTest, IsFullAt32AndTellsWhenItHasRoom) {
  for (std::uint64_t number = 1; number <= 32; ++number) ASSERT_EQ(put(number), Look::ready);
  EXPECT_EQ(put(33), Look::nothing);
  Record record;
  for (int taken = 1; taken < 8; ++taken) {
    ASSERT_EQ(take(record), Look::ready);
    EXPECT_FALSE(reader_.madeRoom());
  }
  EXPECT_EQ(put(33), Look::nothing) << "room is told every 8 records";
  ASSERT_EQ(take(record), Look::ready);
  EXPECT_TRUE(reader_.madeRoom());
  EXPECT_FALSE(reader_.madeRoom());
  for (std::uint64_t number = 33; number <= 40; ++number) ASSERT_EQ(put(number), Look::ready);
  EXPECT_EQ(put(41), Look::nothing);
}

TEST_F(RingTest, RefusesASequenceThatCannotBe) {
  Record record;
  rings_[0].records[0].sequence.publish(2);
  EXPECT_EQ(take(record), Look::corrupt);
  rings_[0].records[0].sequence.publish(33);
  EXPECT_EQ(take(record), Look::corrupt);
}

TEST_F(RingTest, RefusesATypeThatCannotBe) {
  Record record;
  for (std::uint64_t type : {0u, 5u, 255u}) {
    RingReader reader(rings_[0], rings_[1].consumed);
    rings_[0].records[0].words[0].put(type);
    rings_[0].records[0].sequence.publish(1);
    Look look{};
    once([&](Poll poll) { look = reader.take(poll, record); });
    EXPECT_EQ(look, Look::corrupt) << type;
  }
}

TEST_F(RingTest, RefusesACountOfRecordsTakenThatCannotBe) {
  for (std::uint64_t number = 1; number <= 32; ++number) ASSERT_EQ(put(number), Look::ready);
  rings_[1].consumed.publish(33);
  EXPECT_EQ(put(33), Look::corrupt);
  rings_[1].consumed.publish(16);
  EXPECT_EQ(put(33), Look::ready);
  for (std::uint64_t number = 34; number <= 48; ++number) ASSERT_EQ(put(number), Look::ready);
  rings_[1].consumed.publish(15);
  EXPECT_EQ(put(49), Look::corrupt) << "it went back";
}

}  // namespace
}  // namespace symccl::test
