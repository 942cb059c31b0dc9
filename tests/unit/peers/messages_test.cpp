#include <signal.h>

#include <thread>

#include "cast.hpp"

namespace symccl::testing_links {
namespace {

using namespace std::chrono_literals;

Bytes patterned(std::size_t bytes, unsigned seed) {
  Bytes out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::uint8_t>((i * 2654435761u + seed * 977) >> 9);
  return out;
}

TEST(Messages, EveryTopicKeepsItsOrder) {
  perform(2, [](Part& part) {
    Peer* peer = part.linked(1 - part.index());
    ASSERT_TRUE(peer);
    const auto me = static_cast<unsigned>(part.index()), other = 1 - me;
    for (unsigned i = 0; i < 100; ++i) {
      ASSERT_TRUE(part.links().post(*peer, i % 2 ? "odd" : "even", patterned(i * 131 % 5000, i + 1000 * me)));
    }
    for (const char* topic : {"odd", "even"}) {
      for (unsigned i = topic == std::string("odd"); i < 100; i += 2) {
        Result<Bytes> got = part.links().collect(*peer, topic, late(), {});
        ASSERT_TRUE(got) << got.error().message();
        EXPECT_EQ(*got, patterned(i * 131 % 5000, i + 1000 * other)) << i;
      }
    }
    part.meet(0);
  });
}

TEST(Messages, SizesUpToTheLimit) {
  perform(2, [](Part& part) {
    Peer* peer = part.linked(1 - part.index());
    ASSERT_TRUE(peer);
    const std::string longest(256, 't');
    for (const std::size_t bytes : {0, 1, 4096, 65535, 65536}) {
      ASSERT_TRUE(part.links().post(*peer, longest, patterned(bytes, 1)));
      Result<Bytes> got = part.links().collect(*peer, longest, late(), {});
      ASSERT_TRUE(got) << got.error().message();
      EXPECT_TRUE(*got == patterned(bytes, 1)) << bytes;
    }
    EXPECT_EQ(part.links().post(*peer, "t", Bytes(65537)).error().code(), Code::invalid);
    EXPECT_EQ(part.links().post(*peer, longest + "t", {}).error().code(), Code::invalid);
    part.meet(0);
  });
}

TEST(Messages, ToOneself) {
  perform(1, [](Part& part) {
    Links& links = part.links();
    Result<Peer*> self = links.reach(links.self(), late(), {});
    ASSERT_TRUE(self);
    std::thread rank([&] {
      Result<Bytes> got = links.collect(**self, "to 1", late(), {});
      ASSERT_TRUE(got);
      EXPECT_EQ(*got, Bytes{8});
      EXPECT_TRUE(links.post(**self, "to 0", {9}));
    });
    EXPECT_TRUE(links.post(**self, "to 1", {8}));
    Result<Bytes> got = links.collect(**self, "to 0", late(), {});
    rank.join();
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, Bytes{9});
    for (int i = 0; i < 1024; ++i) ASSERT_TRUE(links.post(**self, "full", {}));
    EXPECT_EQ(links.post(**self, "full", {}).error().code(), Code::system);
    EXPECT_EQ(links.collect(**self, "other", Deadline::in(10ms), {}).error().code(), Code::timeout);
  });
}

// A receiver that does not collect makes the sender's queue fill up, which is an error there; nothing is lost.
TEST(Messages, AFullReceiverHoldsTheSenderBack) {
  perform(2, [](Part& part) {
    Peer* peer = part.linked(1 - part.index());
    ASSERT_TRUE(peer);
    if (part.index() == 0) {
      unsigned sent = 0;
      Status status;
      while (sent < 20000) {
        status = part.links().post(*peer, "flood", patterned(4000, sent));
        if (!status) break;
        ++sent;
      }
      ASSERT_FALSE(status) << "the queue never filled";
      EXPECT_EQ(status.error().code(), Code::system);
      EXPECT_NE(status.error().message().find("pid " + std::to_string(part.pidOf(1))), std::string::npos);
      EXPECT_GE(sent, 1024u);
      part.stage().word[0].store(sent);
      part.meet(0);
      part.meet(1);
      EXPECT_TRUE(part.links().post(*peer, "after", {1})) << "there is room again";
    } else {
      part.meet(0);
      const auto sent = static_cast<unsigned>(part.stage().word[0].load());
      for (unsigned i = 0; i < sent; ++i) {
        Result<Bytes> got = part.links().collect(*peer, "flood", late(), {});
        ASSERT_TRUE(got) << got.error().message();
        ASSERT_TRUE(*got == patterned(4000, i)) << i;
      }
      part.meet(1);
      EXPECT_TRUE(part.links().collect(*peer, "after", late(), {}));
    }
    part.meet(2);
  });
}

TEST(Messages, AReceiverThatIsFullIsStillSeenToDieAndSeesDeath) {
  perform(
      2,
      [](Part& part) {
        Peer* peer = part.linked(1 - part.index());
        ASSERT_TRUE(peer);
        if (part.index() == 1) {
          while (part.links().post(*peer, "flood", Bytes(100))) {}
          part.meet(0);
          for (;;) std::this_thread::sleep_for(1s);
        }
        part.meet(0);
        ::kill(part.pidOf(1), SIGKILL);
        EXPECT_TRUE(eventually([&] { return peer->gone().load(); }));
        EXPECT_TRUE(part.links().collect(*peer, "flood", late(), {}));
      },
      1);
}

}  // namespace
}  // namespace symccl::testing_links
