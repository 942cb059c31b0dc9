// Connections to the listening socket that are no handshakes, or wrong ones. Real peers notice nothing.
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "bootstrap/address.hpp"
#include "bootstrap/stream.hpp"
#include "cast.hpp"
#include "peers/handshake.hpp"

namespace symccl::testing_links {
namespace {

using namespace std::chrono_literals;
using handshake::Hello;

ProcessDescriptor stranger(const ProcessEntry& to) {
  Result<ProcessDescriptor> made = connectTo(Address::abstract(handshake::socketName(to.process)), late(), {});
  if (!made) ADD_FAILURE() << made.error().message();
  return made ? std::move(*made) : ProcessDescriptor();
}

void send(const ProcessDescriptor& to, const Bytes& bytes) {
  static_cast<void>(sendAll(to.get(), bytes.data(), bytes.size(), late(), {}));
}

/// What came before the other end closed.
Bytes readToEnd(const ProcessDescriptor& from) {
  Bytes all;
  std::uint8_t byte = 0;
  while (receiveAll(from.get(), &byte, 1, late(), {})) all.push_back(byte);
  return all;
}

std::string refusalIn(const Bytes& answer) {
  if (answer.size() < handshake::kHeadBytes) return "";
  const Status status = handshake::readReply(Bytes(answer.begin() + handshake::kHeadBytes, answer.end()));
  return status ? "" : status.error().message();
}

/// Part 0 is reached by part 1, before and after part 2 has been strange to it.
void amongStrangers(const std::function<void(Part&, const ProcessEntry&)>& act) {
  perform(4, [&](Part& part) {
    part.publish();
    if (part.index() == 0 || part.index() == 1) {
      EXPECT_TRUE(part.linked(1 - part.index()));
      part.meet(0);
    } else if (part.index() == 2) {
      part.meet(0);
      act(part, part.entryOf(0));
    } else {
      part.meet(0);
    }
    part.meet(1);
    if (part.index() == 0) {
      EXPECT_TRUE(part.linked(3));
    }
    if (part.index() == 3) {
      EXPECT_TRUE(part.linked(0));
    }
    part.meet(2);
    if (part.index() == 0) {
      EXPECT_EQ(openSockets(), 3) << "the listener and two links";
    }
    part.meet(3);
  });
}

TEST(LinkStrangers, JunkIsDropped) {
  amongStrangers([](Part&, const ProcessEntry& target) {
    std::mt19937 random(5);
    for (int i = 0; i < 20; ++i) {
      Bytes junk(16 + random() % 3000);
      for (auto& byte : junk) byte = static_cast<std::uint8_t>(random());
      const ProcessDescriptor one = stranger(target);
      send(one, junk);
      EXPECT_EQ(readToEnd(one), Bytes{});
    }
    for (int i = 0; i < 50; ++i) stranger(target);  // come and go
  });
}

TEST(LinkStrangers, SilenceIsDroppedAtItsDeadline) {
  amongStrangers([](Part& part, const ProcessEntry& target) {
    std::vector<ProcessDescriptor> silent;
    for (int i = 0; i < 10; ++i) silent.push_back(stranger(target));
    const Bytes hello = encode(Hello{target.process, part.links().self()});
    send(silent[1], Bytes(hello.begin(), hello.begin() + 7));
    send(silent[2], Bytes(hello.begin(), hello.end() - 1));
    for (const auto& one : silent) EXPECT_EQ(readToEnd(one), Bytes{});
  });
}

TEST(LinkStrangers, AnotherVersionIsToldSo) {
  amongStrangers([](Part& part, const ProcessEntry& target) {
    const ProcessDescriptor one = stranger(target);
    send(one, encode(Hello{target.process, part.links().self()}, kLinkVersion + 1));
    const std::string reason = refusalIn(readToEnd(one));
    EXPECT_NE(reason.find("speaks version 2 of the links, this process version 1"), std::string::npos) << reason;
    EXPECT_NE(reason.find("pid " + std::to_string(::getpid())), std::string::npos) << reason;
  });
}

TEST(LinkStrangers, WrongIdsAreRefused) {
  amongStrangers([](Part& part, const ProcessEntry& target) {
    ProcessEntry me = part.links().self();
    const auto ask = [&](const Uuid& to, const Uuid& from) {
      const ProcessDescriptor one = stranger(target);
      me.process = from;
      send(one, encode(Hello{to, me}));
      return refusalIn(readToEnd(one));
    };
    EXPECT_NE(ask(randomUuid(), {{0, 0}}).find("not this one"), std::string::npos);
    EXPECT_NE(ask(target.process, {{~0ull, ~0ull}}).find("the other one asks"), std::string::npos);
    EXPECT_NE(ask(target.process, target.process).find("the other one asks"), std::string::npos);
    const ProcessEntry linked = part.entryOf(1);
    const std::string again = ask(target.process, linked.process);
    EXPECT_NE(
        again.find(linked.process < target.process ? "link between the two processes already" : "the other one asks"),
        std::string::npos)
        << again;
  });
}

TEST(LinkStrangers, WhoIsWelcomeButDoesNotConfirmIsNoLink) {
  amongStrangers([](Part& part, const ProcessEntry& target) {
    ProcessEntry me = part.links().self();
    me.process = {{0, 1}};
    ProcessDescriptor one = stranger(target);
    send(one, encode(Hello{target.process, me}));
    Bytes head(handshake::kHeadBytes + 1);
    EXPECT_TRUE(receiveAll(one.get(), head.data(), head.size(), late(), {}));
    EXPECT_EQ(head.back(), 1) << "welcome";
    send(one, {0x00});  // not the confirmation
    EXPECT_EQ(readToEnd(one), Bytes{});
  });
}

TEST(LinkStrangers, JunkOnALinkEndsThatLinkOnly) {
  perform(3, [](Part& part) {
    part.publish();
    if (part.index() == 2) {
      // A process that makes the handshake by hand and then breaks the rules.
      ProcessEntry me = part.links().self();
      me.process = {{0, 1}};
      const ProcessEntry target = part.entryOf(0);
      const ProcessDescriptor one = stranger(target);
      part.meet(0);
      send(one, encode(Hello{target.process, me}));
      Bytes head(handshake::kHeadBytes + 1);
      EXPECT_TRUE(receiveAll(one.get(), head.data(), head.size(), late(), {}));
      send(one, {handshake::kLinked});
      send(one, Bytes(100, 0xff));
      EXPECT_EQ(readToEnd(one), Bytes{});
      part.meet(1);
      return;
    }
    Peer* peer = part.linked(1 - part.index());
    ASSERT_TRUE(peer);
    part.meet(0);
    part.meet(1);
    EXPECT_FALSE(peer->gone());
    ASSERT_TRUE(part.links().post(*peer, "alive", {1}));
    EXPECT_TRUE(part.links().collect(*peer, "alive", late(), {}));
    part.meet(2, 2);
  });
}

TEST(LinkStrangers, AnotherUserIsRefusedOnBothSides) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  perform(2, [](Part& part) {
    if (part.index() == 1) {
      ASSERT_EQ(::setuid(65534), 0);
    }
    part.publish();
    Result<Peer*> none = part.links().reach(part.entryOf(1 - part.index()), late(), {});
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code(), Code::invalid) << none.error().message();
    EXPECT_NE(none.error().message().find("pid " + std::to_string(part.pidOf(1 - part.index()))), std::string::npos);
    EXPECT_NE(none.error().message().find(part.index() == 0 ? "user 65534" : "user 0"), std::string::npos)
        << none.error().message();
    part.meet(0);
  });
}

}  // namespace
}  // namespace symccl::testing_links
