// Matching between ranks: tags in any order, any source, any tag, head-to-head, and a random schedule against a model.
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <numeric>
#include <random>

#include "lanes.hpp"

namespace symccl::test {
namespace {

TEST(OrderTest, ReceivesOneByOneInAnyOrderOfTags) {
  Lanes lanes(2);
  constexpr std::array<std::size_t, 9> kSizes{300000, 8, 4096, 0, 1 << 20, 40, 41, 5000, 1};
  std::array<int, kSizes.size()> order{};
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(4);
  for (int round = 0; round < 20; ++round) {
    std::ranges::shuffle(order, random);
    onRanks(2, [&](int rank) {
      // Both send everything, then take the tags in an order of their own, one after the other.
      std::vector<Buffer> out;
      std::vector<RequestPtr> sends;
      for (std::size_t tag = 0; tag < kSizes.size(); ++tag) {
        out.emplace_back(kSizes[tag]);
        out.back().fill(tag + 100 * static_cast<std::size_t>(rank));
        sends.push_back(lanes.send(rank, out.back().data(), kSizes[tag], 1 - rank, static_cast<int>(tag)));
      }
      for (std::size_t i = 0; i < order.size(); ++i) {
        const auto tag = static_cast<std::size_t>(rank == 0 ? order[i] : order[order.size() - 1 - i]);
        Buffer in(kSizes[tag]);
        const RequestPtr request = lanes.recv(rank, in.data(), kSizes[tag], 1 - rank, static_cast<int>(tag));
        EXPECT_TRUE(ends(request));
        EXPECT_TRUE(in.holds(tag + 100 * static_cast<std::size_t>(1 - rank), kSizes[tag])) << "tag " << tag;
      }
      for (const RequestPtr& send : sends) EXPECT_TRUE(ends(send));
    });
  }
}

TEST(OrderTest, EqualTagsDoNotOvertakeWhateverTheForm) {
  Lanes lanes(2);
  constexpr std::size_t kMessages = 60;
  const std::array<std::size_t, 5> sizes{600000, 4, 3000, 5000, 40};
  std::vector<Buffer> out, in;
  std::vector<RequestPtr> requests;
  for (std::size_t i = 0; i < kMessages; ++i) {
    const std::size_t bytes = sizes[i % sizes.size()];
    out.push_back(makeBuffer(lanes, bytes, i % 7 == 0));
    out.back().fill(i);
    in.emplace_back(600000);
  }
  onRanks(2, [&](int rank) {
    std::vector<RequestPtr> mine;
    for (std::size_t i = 0; i < kMessages; ++i) {
      mine.push_back(rank == 0 ? lanes.send(0, out[i].data(), out[i].bytes(), 1, 3)
                               : lanes.recv(1, in[i].data(), in[i].bytes(), i % 2 == 0 ? 0 : kAnySource,
                                            i % 3 == 0 ? kAnyTag : 3));
    }
    for (std::size_t i = 0; i < kMessages; ++i) {
      EXPECT_TRUE(ends(mine[i]));
      if (rank == 1) {
        EXPECT_EQ(mine[i]->bytes(), sizes[i % sizes.size()]) << i;
      }
    }
  });
  for (std::size_t i = 0; i < kMessages; ++i) EXPECT_TRUE(in[i].holds(i, sizes[i % sizes.size()])) << i;
}

TEST(OrderTest, ThousandsOfUnexpectedMessages) {
  Lanes lanes(2);
  constexpr int kMessages = 5000;
  std::vector<std::uint64_t> values(kMessages);
  onRanks(2, [&](int rank) {
    if (rank == 0) {
      std::vector<RequestPtr> sends;
      for (int i = 0; i < kMessages; ++i) {
        values[static_cast<std::size_t>(i)] = static_cast<std::uint64_t>(i) * 77 + 1;
        sends.push_back(lanes.send(0, &values[static_cast<std::size_t>(i)], 8, 1, i));
      }
      for (const RequestPtr& send : sends) EXPECT_TRUE(ends(send));
    } else {
      // The last tag first, so that all others are unexpected.
      for (int i = kMessages - 1; i >= 0; --i) {
        std::uint64_t got = 0;
        EXPECT_TRUE(ends(lanes.recv(1, &got, 8, 0, i)));
        ASSERT_EQ(got, static_cast<std::uint64_t>(i) * 77 + 1);
      }
    }
  });
}

TEST(OrderTest, HeadToHeadOfAnySize) {
  for (std::size_t bytes : {std::size_t{8}, std::size_t{5000}, std::size_t{7} << 20}) {
    for (bool located : {false, true}) {
      Lanes lanes(2);
      onRanks(2, [&](int rank) {
        Buffer out = makeBuffer(lanes, bytes, located);
        Buffer in = makeBuffer(lanes, bytes, located);
        out.fill(static_cast<std::size_t>(rank));
        // More of them than there are pipes.
        std::vector<RequestPtr> sends;
        for (int tag = 0; tag < 6; ++tag) sends.push_back(lanes.send(rank, out.data(), bytes, 1 - rank, tag));
        for (int tag = 5; tag >= 0; --tag) EXPECT_TRUE(ends(lanes.recv(rank, in.data(), bytes, 1 - rank, tag)));
        for (const RequestPtr& send : sends) EXPECT_TRUE(ends(send));
        EXPECT_TRUE(in.holds(static_cast<std::size_t>(1 - rank), bytes));
      });
    }
  }
}

TEST(OrderTest, ABatchStartsAsIfAtOnce) {
  Lanes lanes(3);
  onRanks(3, [&](int rank) {
    constexpr std::size_t kBytes = 300001;
    std::vector<Buffer> buffers;
    std::vector<Message> batch;
    for (int peer = 0; peer < 3; ++peer) {
      for (Message::Way way : {Message::Way::recv, Message::Way::send}) {
        Buffer& buffer = buffers.emplace_back(kBytes);
        if (way == Message::Way::send) buffer.fill(static_cast<std::size_t>(rank * 10 + peer));
        batch.push_back({way, nullptr, kBytes, peer, 0, true});
      }
    }
    for (std::size_t i = 0; i < batch.size(); ++i) batch[i].data = buffers[i].data();
    const auto requests = lanes.lane(rank).start(batch, Deadline::in(std::chrono::seconds(50)));
    ASSERT_EQ(requests.size(), batch.size());
    for (const RequestPtr& request : requests) EXPECT_TRUE(ends(request));
    for (int peer = 0; peer < 3; ++peer) {
      EXPECT_TRUE(
          buffers[static_cast<std::size_t>(peer) * 2].holds(static_cast<std::size_t>(peer * 10 + rank), kBytes));
    }
  });
}

TEST(OrderTest, AnySourceTakesEachMessageOnce) {
  constexpr int kRanks = 5, kEach = 40;
  Lanes lanes(kRanks);
  onRanks(kRanks, [&](int rank) {
    if (rank != 0) {
      for (int i = 0; i < kEach; ++i) {
        const std::array<int, 2> value{rank, i};
        EXPECT_TRUE(ends(lanes.send(rank, value.data(), sizeof value, 0, i % 3)));
      }
      return;
    }
    std::map<int, int> next;
    for (int i = 0; i < kEach * (kRanks - 1); ++i) {
      std::array<int, 2> value{};
      const RequestPtr request = lanes.recv(0, value.data(), sizeof value, kAnySource, kAnyTag);
      EXPECT_TRUE(ends(request));
      EXPECT_EQ(request->source(), value[0]);
      EXPECT_EQ(value[1], next[value[0]]++) << "from rank " << value[0];
    }
  });
}

/// What one rank does in the random test, known to all ranks: the k-th message of a pair and tag matches the k-th
/// receive.
struct Planned {
  int from, to, tag;
  std::size_t bytes, seed;
  bool located;
};

TEST(OrderTest, RandomScheduleAgainstAModelOfMatching) {
  constexpr int kRanks = 3, kMessages = 400;
  const std::array<std::size_t, 8> sizes{0, 8, 40, 41, 4096, 4097, 70000, 600000};
  for (unsigned schedule = 1; schedule <= 3; ++schedule) {
    std::mt19937 random(schedule);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
    std::vector<Planned> plan;
    for (std::size_t i = 0; i < kMessages; ++i) {
      plan.push_back({static_cast<int>(below(kRanks)), static_cast<int>(below(kRanks)), static_cast<int>(below(4)),
                      sizes[below(below(4) == 0 ? 8 : 6)], i, below(3) == 0});
    }
    Lanes lanes(kRanks);
    std::vector<Buffer> out, in;
    for (const Planned& message : plan) {
      out.push_back(makeBuffer(lanes, message.bytes, message.located && message.bytes > 1000));
      out.back().fill(message.seed);
      in.emplace_back(message.bytes + below(3));
    }
    onRanks(kRanks, [&](int rank) {
      std::mt19937 mine(schedule * 100 + static_cast<unsigned>(rank));
      // Sends and receives of this rank: each in plan order for its pair and tag, interleaved at random.
      std::deque<std::size_t> sends, receives;
      for (std::size_t i = 0; i < plan.size(); ++i) {
        if (plan[i].from == rank) sends.push_back(i);
        if (plan[i].to == rank) receives.push_back(i);
      }
      std::vector<std::pair<std::size_t, RequestPtr>> open;
      const auto waitForSome = [&](std::size_t keep) {
        while (open.size() > keep) {
          const std::size_t which = mine() % open.size();
          // Only what can end without this rank doing more: receives of what others send may depend on it.
          if (keep > 0 && !open[which].second->done()) break;
          EXPECT_TRUE(ends(open[which].second));
          open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
        }
      };
      while (!sends.empty() || !receives.empty()) {
        const bool send = receives.empty() || (!sends.empty() && mine() % 2 == 0);
        auto& queue = send ? sends : receives;
        const std::size_t i = queue.front();
        queue.pop_front();
        const Planned& message = plan[i];
        open.emplace_back(i, send ? lanes.send(rank, out[i].data(), message.bytes, message.to, message.tag)
                                  : lanes.recv(rank, in[i].data(), in[i].bytes(), message.from, message.tag));
        if (mine() % 5 == 0) waitForSome(10);
      }
      waitForSome(0);
    });
    for (std::size_t i = 0; i < plan.size(); ++i) {
      ASSERT_TRUE(in[i].holds(plan[i].seed, plan[i].bytes)) << "message " << i << " of schedule " << schedule;
    }
  }
}

class ManyMembersTest : public testing::TestWithParam<int> {};

TEST_P(ManyMembersTest, RingExchangeAndAllToAll) {
  const int ranks = GetParam();
  Lanes lanes(ranks);
  onRanks(ranks, [&](int rank) {
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (std::size_t bytes : {std::size_t{8}, std::size_t{2000}, std::size_t{100000}}) {
      Buffer out(bytes), in(bytes);
      out.fill(static_cast<std::size_t>(rank));
      const RequestPtr send = lanes.send(rank, out.data(), bytes, next, 1);
      EXPECT_TRUE(ends(lanes.recv(rank, in.data(), bytes, before, 1)));
      EXPECT_TRUE(ends(send));
      EXPECT_TRUE(in.holds(static_cast<std::size_t>(before), bytes));
    }
    std::vector<std::uint64_t> out(static_cast<std::size_t>(ranks)), in(static_cast<std::size_t>(ranks));
    std::vector<Message> batch;
    for (int peer = 0; peer < ranks; ++peer) {
      const auto at = static_cast<std::size_t>(peer);
      out[at] = static_cast<std::uint64_t>(rank) * 1000 + at;
      batch.push_back({Message::Way::send, &out[at], 8, peer, 2, false});
      batch.push_back({Message::Way::recv, &in[at], 8, peer, 2, true});
    }
    for (const RequestPtr& request : lanes.lane(rank).start(batch, Deadline::in(std::chrono::seconds(50))))
      EXPECT_TRUE(ends(request));
    for (int peer = 0; peer < ranks; ++peer) {
      EXPECT_EQ(in[static_cast<std::size_t>(peer)], static_cast<std::uint64_t>(peer * 1000 + rank));
    }
  });
}
INSTANTIATE_TEST_SUITE_P(, ManyMembersTest, testing::Values(2, 17, 33), testing::PrintToStringParamName());

}  // namespace
}  // namespace symccl::test
