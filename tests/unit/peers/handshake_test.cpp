#include "peers/handshake.hpp"

#include <gtest/gtest.h>

#include <random>

#include "base/checks.hpp"

namespace symccl::handshake {
namespace {

Bytes bodyOf(const Bytes& whole) { return Bytes(whole.begin() + kHeadBytes, whole.end()); }
Bytes headOf(const Bytes& whole) { return Bytes(whole.begin(), whole.begin() + kHeadBytes); }

TEST(Handshake, Hello) {
  const ProcessEntry me = ProcessEntry::ofThisProcess();
  const Uuid to = randomUuid();
  const Bytes whole = encode(Hello{to, me});
  const auto head = readHead(headOf(whole));
  ASSERT_TRUE(head);
  EXPECT_EQ(head->version, kLinkVersion);
  EXPECT_EQ(head->bodyBytes, whole.size() - kHeadBytes);
  const auto hello = readHello(bodyOf(whole));
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->to, to);
  EXPECT_EQ(hello->from.process, me.process);
  EXPECT_EQ(hello->from.host, me.host);
}

TEST(Handshake, Replies) {
  EXPECT_TRUE(readReply(bodyOf(encodeWelcome())));
  const Status refused = readReply(bodyOf(encodeRefusal(Error(Code::unsupported, "because"))));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::unsupported);
  EXPECT_EQ(refused.error().message(), "because");
  const Bytes longest = encodeRefusal(Error(Code::system, std::string(100000, 'x')));
  EXPECT_LE(longest.size(), kHeadBytes + kMostBodyBytes);
  EXPECT_EQ(readReply(bodyOf(longest)).error().message().size(), 1024u);
  for (const Bytes& bad : {Bytes{}, Bytes{1, 0}, Bytes{0}, Bytes{0, 200, 0, 0, 0, 0}, Bytes{2}}) {
    EXPECT_EQ(readReply(bad).error().code(), Code::corrupt);
  }
}

TEST(Handshake, HeadsThatAreNone) {
  const Bytes good = headOf(encodeWelcome());
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_FALSE(readHead(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(bytes))));
  }
  Bytes wrongMagic = good;
  wrongMagic[3] ^= 1;
  EXPECT_FALSE(readHead(wrongMagic));
  Bytes tooLong = good;
  tooLong[13] = 0xff;
  EXPECT_FALSE(readHead(tooLong));
}

TEST(Handshake, MutatedHellosAreReadOrRefusedButNeverHarm) {
  const Bytes good = bodyOf(encode(Hello{randomUuid(), ProcessEntry::ofThisProcess()}));
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = good;
    if (random() % 2) bytes.resize(random() % (good.size() + 20));
    for (unsigned flips = random() % 4; flips > 0 && !bytes.empty(); --flips) {
      bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    }
    bytes.shrink_to_fit();
    const auto hello = readHello(bytes);
    if (bytes == good) {
      EXPECT_TRUE(hello.has_value());
    }
    if (hello) {
      EXPECT_LE(hello->from.host.size(), 512u);
    }
  }
}

}  // namespace
}  // namespace symccl::handshake
