// A member without a lane: what it publishes to rank 0 is made by hand.
#pragma once

#include <gtest/gtest.h>

#include <array>

#include "p2p/record.hpp"
#include "p2p/ring.hpp"
#include "unit/protocol_fixture.hpp"

namespace symccl::test {

/// Calls `look` once with the right to poll.
template <class Look>
void once(const Look& look) {
  WaitContext context;
  waitUntil(context, 0, [&](Poll poll) {
    look(poll);
    return true;
  });
}

class RawPeer {
 public:
  RawPeer(GroupRanks& groups, int rank)
      : groups_(groups), writer_(groups[rank].ownArea().ring(0), groups[0].ownArea().ring(rank).consumed) {}

  void publish(const Record& record) {
    once([&](Poll poll) { EXPECT_EQ(writer_.room(poll), Look::ready); });
    writer_.put(record);
    groups_[0].wakeOwn();
  }

 private:
  GroupRanks& groups_;
  RingWriter writer_;
};

inline Record send(Form form, std::uint64_t bytes, std::uint64_t where = 0, std::uint32_t tag = 0) {
  Record record;
  record.form = form;
  record.count = static_cast<std::uint8_t>(bytes <= 40 ? bytes : 0);
  record.number = bytes;
  record.body[0] = where;
  record.tag = tag;
  return record;
}

inline Record reply(RecordType type, std::uint64_t id, std::array<std::uint64_t, 5> body = {}, std::uint8_t count = 0) {
  Record record;
  record.type = type;
  record.count = count;
  record.number = id;
  record.body = body;
  return record;
}

}  // namespace symccl::test
