#include "p2p/matching.hpp"

#include <gtest/gtest.h>

namespace symccl {
namespace {

OpenMessage receive(int source, int tag, std::uint64_t number) {
  OpenMessage open;
  open.message = {Message::Way::recv, nullptr, 0, source, tag, false};
  open.number = number;
  return open;
}
Arrival arrival(int source, std::uint32_t tag, std::uint64_t id) {
  Arrival made;
  made.record.tag = tag;
  made.source = source;
  made.id = id;
  return made;
}
std::uint64_t numberOf(const std::optional<OpenMessage>& open) { return open ? open->number : 0; }

TEST(PostedReceives, AreTakenInPostingOrderAmongThoseThatAccept) {
  PostedReceives posted(3);
  posted.add(receive(1, 7, 1));
  posted.add(receive(kAnySource, 7, 2));
  posted.add(receive(1, kAnyTag, 3));
  posted.add(receive(kAnySource, kAnyTag, 4));
  posted.add(receive(1, 7, 5));
  EXPECT_EQ(numberOf(posted.match(2, 9)), 4u);
  EXPECT_EQ(numberOf(posted.match(2, 9)), 0u);
  EXPECT_EQ(numberOf(posted.match(1, 8)), 3u);
  EXPECT_EQ(numberOf(posted.match(1, 7)), 1u);
  EXPECT_EQ(numberOf(posted.match(1, 7)), 2u);
  EXPECT_EQ(numberOf(posted.match(2, 7)), 0u);
  EXPECT_EQ(numberOf(posted.match(1, 7)), 5u);
  EXPECT_EQ(numberOf(posted.match(1, 7)), 0u);
}

TEST(PostedReceives, HoldTheLargestTag) {
  PostedReceives posted(1);
  posted.add(receive(0, 0x7fffffff, 1));
  EXPECT_EQ(numberOf(posted.match(0, 0x7ffffffe)), 0u);
  EXPECT_EQ(numberOf(posted.match(0, 0x7fffffff)), 1u);
}

TEST(UnexpectedMessages, AreTakenInOrderOfArrivalAmongThoseAccepted) {
  UnexpectedMessages held(3);
  held.add(arrival(2, 5, 1));
  held.add(arrival(1, 5, 1));
  held.add(arrival(1, 6, 2));
  held.add(arrival(1, 5, 3));
  EXPECT_FALSE(held.match(0, kAnyTag));
  EXPECT_FALSE(held.match(kAnySource, 8));
  EXPECT_EQ(held.match(1, 6)->id, 2u);
  const auto first = held.match(kAnySource, 5);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->source, 2);
  EXPECT_EQ(held.match(kAnySource, kAnyTag)->id, 1u);
  EXPECT_EQ(held.match(1, kAnyTag)->id, 3u);
  EXPECT_FALSE(held.match(kAnySource, kAnyTag));
  held.add(arrival(1, 4, 4));
  held.add(arrival(2, 4, 2));
  EXPECT_EQ(held.match(kAnySource, 4)->source, 1);
  EXPECT_EQ(held.match(kAnySource, 4)->source, 2);
}

}  // namespace
}  // namespace symccl
