#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/host.hpp"
#include "bootstrap/address.hpp"
#include "symccl/store.hpp"

namespace symccl {
namespace {

using namespace std::chrono_literals;

std::string freshName() { return "unix:@symccl-test-" + randomUuid().hex(); }

std::unique_ptr<TcpStore> serve(const std::string& host, const std::string& token) {
  Result<std::unique_ptr<TcpStore>> made = TcpStore::serve(host, 0, token);
  if (!made) {
    ADD_FAILURE() << made.error().message();
    return nullptr;
  }
  return std::move(*made);
}

TEST(TcpStore, ListensOnLoopbackUnlessTold) {
  const auto store = serve("", "");
  ASSERT_TRUE(store);
  EXPECT_GT(store->port(), 0);
  ASSERT_TRUE(TcpStore::connect("127.0.0.1", store->port(), "", 10s));
  ASSERT_TRUE(TcpStore::connect("localhost", store->port(), "", 10s));
}

TEST(TcpStore, WithoutATokenOnlyOnLoopback) {
  Result<std::unique_ptr<TcpStore>> open = TcpStore::serve("0.0.0.0", 0, "");
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().code(), Code::invalid);
  EXPECT_NE(open.error().message().find("SYMCCL_TOKEN"), std::string::npos);
  EXPECT_TRUE(TcpStore::serve("0.0.0.0", 0, "secret"));
}

TEST(TcpStore, AWrongTokenIsRefusedAtOnceAndSaysSo) {
  for (const std::string& host : {std::string("127.0.0.1"), freshName()}) {
    const auto store = serve(host, "right");
    ASSERT_TRUE(store);
    for (const char* token : {"wrong", "", "right "}) {
      Result<std::unique_ptr<TcpStore>> refused = TcpStore::connect(host, store->port(), token, 1h);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code(), Code::invalid);
      EXPECT_NE(refused.error().message().find("SYMCCL_TOKEN"), std::string::npos) << refused.error().message();
    }
    EXPECT_TRUE(TcpStore::connect(host, store->port(), "right", 10s)) << "the server goes on";
  }
}

TEST(TcpStore, ManyClients) {
  const auto store = serve("127.0.0.1", "token");
  ASSERT_TRUE(store);
  constexpr int kClients = 40;
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      Result<std::unique_ptr<TcpStore>> one = TcpStore::connect("127.0.0.1", store->port(), "token", 30s);
      ASSERT_TRUE(one) << one.error().message();
      EXPECT_TRUE(
          (*one)->set("rank " + std::to_string(i), Bytes(static_cast<std::size_t>(i), static_cast<std::uint8_t>(i))));
      for (int other = 0; other < kClients; ++other) {
        Result<Bytes> got = (*one)->get("rank " + std::to_string(other), 30s);
        ASSERT_TRUE(got) << got.error().message();
        EXPECT_EQ(*got, Bytes(static_cast<std::size_t>(other), static_cast<std::uint8_t>(other)));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(TcpStore, ClientsMayComeBeforeTheServer) {
  const std::string name = freshName();
  std::thread early([&] {
    Result<std::unique_ptr<TcpStore>> client = TcpStore::connect(name, 0, "t", 30s);
    ASSERT_TRUE(client) << client.error().message();
    EXPECT_EQ(*(*client)->get("k", 30s), Bytes{7});
  });
  std::this_thread::sleep_for(100ms);
  const auto store = serve(name, "t");
  ASSERT_TRUE(store);
  EXPECT_TRUE(store->set("k", {7}));
  early.join();
}

TEST(TcpStore, NobodyServes) {
  Result<std::unique_ptr<TcpStore>> none = TcpStore::connect(freshName(), 0, "", 50ms);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Code::timeout);
  EXPECT_NE(none.error().message().find("ECONNREFUSED"), std::string::npos) << none.error().message();
}

TEST(TcpStore, ATakenAddressIsNamed) {
  const std::string name = freshName();
  const auto store = serve(name, "");
  Result<std::unique_ptr<TcpStore>> second = TcpStore::serve(name, 0, "");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::system);
  EXPECT_NE(second.error().message().find(name), std::string::npos);
  EXPECT_NE(second.error().message().find("EADDRINUSE"), std::string::npos);
}

TEST(TcpStore, BadPortsAreRefused) {
  EXPECT_EQ(TcpStore::serve("127.0.0.1", -1, "").error().code(), Code::invalid);
  EXPECT_EQ(TcpStore::serve("127.0.0.1", 65536, "").error().code(), Code::invalid);
  EXPECT_EQ(TcpStore::serve("unix:@x", 5, "").error().code(), Code::invalid);
  EXPECT_EQ(TcpStore::serve("unix:/tmp/x", 0, "").error().code(), Code::invalid);
  EXPECT_EQ(TcpStore::connect("127.0.0.1", 0, "", 1s).error().code(), Code::invalid);
}

TEST(TcpStore, WhenTheServerGoesClientsGetASentence) {
  for (const std::string& host : {std::string("127.0.0.1"), freshName()}) {
    auto store = serve(host, "t");
    ASSERT_TRUE(store);
    Result<std::unique_ptr<TcpStore>> client = TcpStore::connect(host, store->port(), "t", 10s);
    ASSERT_TRUE(client) << client.error().message();
    std::thread waiting([&] {
      Result<Bytes> got = (*client)->get("never", 1h);
      ASSERT_FALSE(got);
      EXPECT_EQ(got.error().code(), Code::dead);
      EXPECT_NE(got.error().message().find("dropped it"), std::string::npos) << got.error().message();
    });
    std::this_thread::sleep_for(50ms);
    store.reset();
    waiting.join();
    const Status later = (*client)->set("k", {1});
    ASSERT_FALSE(later);
    EXPECT_EQ(later.error().code(), Code::dead);
  }
}

TEST(TcpStore, AnIdleClientLearnsItAtItsNextCall) {
  auto store = serve("127.0.0.1", "t");
  Result<std::unique_ptr<TcpStore>> client = TcpStore::connect("127.0.0.1", store->port(), "t", 10s);
  ASSERT_TRUE(client);
  ASSERT_TRUE((*client)->set("k", {1}));
  store.reset();
  EXPECT_EQ((*client)->get("k", 1h).error().code(), Code::dead);
  EXPECT_EQ((*client)->add("n", 1).error().code(), Code::dead);
}

TEST(TcpStore, AKilledServerIsNoticed) {
  const std::string name = freshName();
  const pid_t server = ::fork();
  if (server == 0) {
    auto store = TcpStore::serve(name, 0, "t");
    for (;;) ::pause();
  }
  Result<std::unique_ptr<TcpStore>> client = TcpStore::connect(name, 0, "t", 30s);
  ASSERT_TRUE(client) << client.error().message();
  std::thread killer([&] {
    std::this_thread::sleep_for(50ms);
    ::kill(server, SIGKILL);
  });
  EXPECT_EQ((*client)->get("never", 1h).error().code(), Code::dead);
  killer.join();
  ::waitpid(server, nullptr, 0);
}

TEST(TcpStore, AForkedChildIsTold) {
  const auto store = serve(freshName(), "t");
  ASSERT_TRUE(store);
  const pid_t child = ::fork();
  if (child == 0) {
    bool right = store->set("k", {1}).error().code() == Code::forked;
    right = right && store->get("k", 1h).error().code() == Code::forked;
    right = right && store->add("k", 1).error().code() == Code::forked;
    const_cast<std::unique_ptr<TcpStore>&>(store).reset();  // must neither hang nor end the parent's server
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(store->set("k", {1})) << "the parent's store is untouched";
}

}  // namespace
}  // namespace symccl
