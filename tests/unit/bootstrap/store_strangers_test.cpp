// Connections that are no clients: junk, silence, half a handshake, another user. The store's real clients notice
// nothing.
#include <dirent.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "base/host.hpp"
#include "bootstrap/address.hpp"
#include "bootstrap/store_protocol.hpp"
#include "bootstrap/wire.hpp"
#include "symccl/store.hpp"

namespace symccl {
namespace {

using namespace std::chrono_literals;
using namespace store_protocol;

int openDescriptors() {
  DIR* directory = ::opendir("/proc/self/fd");
  int count = 0;
  while (::readdir(directory)) ++count;
  ::closedir(directory);
  return count;
}

class StoreStrangers : public testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<TcpStore>> made = TcpStore::serve("127.0.0.1", 0, "token");
    ASSERT_TRUE(made) << made.error().message();
    store_ = std::move(*made);
  }

  ProcessDescriptor stranger() {
    Result<ProcessDescriptor> made = connectTo(Address{"127.0.0.1", store_->port(), {}}, soon(), {});
    if (!made) ADD_FAILURE() << made.error().message();
    return made ? std::move(*made) : ProcessDescriptor();
  }
  /// A connection that has proved itself.
  ProcessDescriptor member() {
    ProcessDescriptor made = stranger();
    const Status status = introduce(made.get(), "token", soon(), {});
    if (!status) ADD_FAILURE() << status.error().message();
    return made;
  }
  static Deadline soon() { return Deadline::in(20s); }
  /// Whether the server closes the connection by itself (what it sent before is read and dropped).
  static bool closedByServer(const ProcessDescriptor& connection) {
    std::uint8_t byte = 0;
    for (;;) {
      const Status got = receiveAll(connection.get(), &byte, 1, soon(), {});
      if (!got) return got.error().code() == Code::dead;
    }
  }
  static void send(const ProcessDescriptor& to, const Bytes& bytes) {
    static_cast<void>(sendAll(to.get(), bytes.data(), bytes.size(), soon(), {}));
  }
  void expectService() {
    Result<std::unique_ptr<TcpStore>> client = TcpStore::connect("127.0.0.1", store_->port(), "token", 20s);
    ASSERT_TRUE(client) << client.error().message();
    ASSERT_TRUE((*client)->set("alive", {42}));
    Result<Bytes> got = store_->get("alive", 20s);
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_EQ(*got, Bytes{42});
  }

  std::unique_ptr<TcpStore> store_;
};

TEST_F(StoreStrangers, JunkIsDropped) {
  std::mt19937 random(7);
  for (int i = 0; i < 20; ++i) {
    const ProcessDescriptor junk = stranger();
    Bytes bytes(kAnswerBytes + random() % 5000);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    send(junk, bytes);
    EXPECT_TRUE(closedByServer(junk));
  }
  expectService();
}

TEST_F(StoreStrangers, TextOfOtherProtocolsIsDropped) {
  const ProcessDescriptor browser = stranger();
  const std::string request =
      "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: something that is long enough to be judged\r\n\r\n";
  send(browser, Bytes(request.begin(), request.end()));
  EXPECT_TRUE(closedByServer(browser));
  expectService();
}

TEST_F(StoreStrangers, SilenceIsDroppedAtTheDeadlineAndDisturbsNobody) {
  std::vector<ProcessDescriptor> silent;
  for (int i = 0; i < 30; ++i) silent.push_back(stranger());
  send(silent[3], Bytes(kAnswerBytes - 1));  // half an answer is no better
  expectService();
  for (const auto& one : silent) EXPECT_TRUE(closedByServer(one));
}

TEST_F(StoreStrangers, MoreSilenceThanSlotsOnlyDelays) {
  std::vector<ProcessDescriptor> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(stranger());
  expectService();
}

TEST_F(StoreStrangers, ThoseWhoVanishLeaveNothing) {
  expectService();
  std::this_thread::sleep_for(50ms);
  const int before = openDescriptors();
  for (int i = 0; i < 50; ++i) stranger();
  expectService();
  for (int look = 0; look < 400 && openDescriptors() > before; ++look) std::this_thread::sleep_for(10ms);
  EXPECT_LE(openDescriptors(), before);
}

TEST_F(StoreStrangers, AReplayedProofIsRefused) {
  // What a client sent on one connection proves nothing on another: the server's nonce differs.
  const ProcessDescriptor first = stranger();
  Bytes hello(kGreetingBytes);
  ASSERT_TRUE(receiveAll(first.get(), hello.data(), hello.size(), soon(), {}));
  Digest serverNonce;
  std::copy(hello.begin() + 12, hello.end(), serverNonce.begin());
  const Digest clientNonce = randomNonce(), right = proof("token", "client", serverNonce, clientNonce);
  WireWriter out;
  out.u64(kMagic).u32(kVersion);
  for (const auto byte : clientNonce) out.u8(byte);
  for (const auto byte : right) out.u8(byte);
  const Bytes answer = out.take();
  EXPECT_TRUE(judge("token", serverNonce, answer).accepted);
  EXPECT_FALSE(judge("token", randomNonce(), answer).accepted);
  EXPECT_FALSE(judge("nekot", serverNonce, answer).accepted);
  const ProcessDescriptor second = stranger();
  send(second, answer);
  EXPECT_TRUE(closedByServer(second));
}

TEST_F(StoreStrangers, MembersThatBreakTheRulesAreDropped) {
  WireWriter setWithoutValue, unknown, trailing;
  setWithoutValue.u8(1).string("key");
  unknown.u8(77).string("key");
  trailing.u8(2).string("key").u64(5).u8(0);
  const Bytes frames[] = {WireWriter().u32(0).take(),
                          WireWriter().u32(0xffffffff).take(),
                          WireWriter().u32(static_cast<std::uint32_t>(kMostFrameBytes) + 1).take(),
                          framed(setWithoutValue.take()),
                          framed(unknown.take()),
                          framed(trailing.take())};
  for (const Bytes& frame : frames) {
    const ProcessDescriptor bad = member();
    send(bad, frame);
    EXPECT_TRUE(closedByServer(bad));
  }
  expectService();
}

TEST_F(StoreStrangers, MembersMaySendByteByByte) {
  const ProcessDescriptor slow = member();
  WireWriter set;
  set.u8(1).string("slow").string("value");
  for (const std::uint8_t byte : framed(set.take())) {
    send(slow, {byte});
    std::this_thread::sleep_for(1ms);
  }
  Result<Bytes> got = store_->get("slow", 20s);
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(std::string(got->begin(), got->end()), "value");
}

TEST_F(StoreStrangers, AMemberThatReadsNothingHoldsUpNobody) {
  ASSERT_TRUE(store_->set("large", Bytes(kMostValueBytes)));
  const ProcessDescriptor lazy = member();
  for (int i = 0; i < 20; ++i) {
    WireWriter get;
    get.u8(2).string("large").u64(0);
    const Bytes frame = framed(get.take());
    static_cast<void>(!::write(lazy.get(), frame.data(), frame.size()));
  }
  expectService();
}

TEST_F(StoreStrangers, AServerThatIsNoStoreIsNamed) {
  Result<Listener> other = listenAt(Address{"127.0.0.1", 0, {}});
  ASSERT_TRUE(other);
  std::thread greeter([&] {
    ASSERT_TRUE(awaitReady(other->socket.get(), POLLIN, soon(), {}));
    const FileDescriptor visitor(::accept(other->socket.get(), nullptr, nullptr));
    const std::string banner = "220 mail.example ESMTP: a server that speaks first, and long enough\r\n";
    static_cast<void>(!::write(visitor.get(), banner.data(), banner.size()));
    std::uint8_t byte = 0;
    static_cast<void>(!::read(visitor.get(), &byte, 1));
  });
  Result<std::unique_ptr<TcpStore>> client = TcpStore::connect("127.0.0.1", other->port, "token", 1h);
  greeter.join();
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code(), Code::invalid);
  EXPECT_NE(client.error().message().find("not a SymCCL store"), std::string::npos) << client.error().message();
}

TEST(UnixStore, AnotherUserIsRefusedOnBothSides) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const std::string name = "unix:@symccl-test-" + randomUuid().hex();
  const pid_t other = ::fork();
  if (other == 0) {
    if (::setuid(65534) != 0) ::_exit(2);
    Result<std::unique_ptr<TcpStore>> refused = TcpStore::connect(name, 0, "token", 30s);
    if (refused || refused.error().code() != Code::invalid) ::_exit(1);
    ::_exit(refused.error().message().find("of user 0") != std::string::npos ? 0 : 3);
  }
  Result<std::unique_ptr<TcpStore>> store = TcpStore::serve(name, 0, "token");
  int status = 0;
  ::waitpid(other, &status, 0);
  ASSERT_TRUE(store) << store.error().message();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE((*store)->set("alive", {1}));
}

}  // namespace
}  // namespace symccl
