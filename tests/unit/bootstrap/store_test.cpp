// What every store promises, over each of them.
#include <gtest/gtest.h>

#include <thread>

#include "base/host.hpp"
#include "bootstrap/store_table.hpp"
#include "symccl/store.hpp"

namespace symccl {
namespace {

using namespace std::chrono_literals;

Bytes bytesOf(const std::string& text) { return Bytes(text.begin(), text.end()); }

/// Two ends of one store; a local store has one.
struct Ends {
  std::shared_ptr<Store> first, second;
};

class StoreTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "local") {
      ends_.first = ends_.second = makeLocalStore();
      return;
    }
    const std::string host = GetParam() == "unix" ? "unix:@symccl-test-" + randomUuid().hex() : "127.0.0.1";
    Result<std::unique_ptr<TcpStore>> served = TcpStore::serve(host, 0, "token");
    ASSERT_TRUE(served) << served.error().message();
    Result<std::unique_ptr<TcpStore>> joined = TcpStore::connect(host, (*served)->port(), "token", 10s);
    ASSERT_TRUE(joined) << joined.error().message();
    ends_.first = std::move(*served);
    ends_.second = std::move(*joined);
  }
  Store& first() { return *ends_.first; }
  Store& second() { return *ends_.second; }
  Ends ends_;
};

TEST_P(StoreTest, SetIsSeenByAllAndReplaces) {
  ASSERT_TRUE(first().set("key", {1, 2, 3}));
  Result<Bytes> got = second().get("key", 10s);
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(*got, (Bytes{1, 2, 3}));
  ASSERT_TRUE(second().set("key", {4}));
  EXPECT_EQ(*first().get("key", 10s), Bytes{4});
  ASSERT_TRUE(first().set("key", {}));
  EXPECT_EQ(*second().get("key", 10s), Bytes{});
}

TEST_P(StoreTest, AllSizesAndAllBytes) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4093}, std::size_t{16384},
                                 std::size_t{65537}, kMostValueBytes - 1, kMostValueBytes}) {
    Bytes value(size);
    for (std::size_t i = 0; i < size; ++i) value[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
    const std::string key = "size " + std::to_string(size);
    ASSERT_TRUE(first().set(key, value));
    Result<Bytes> got = second().get(key, 10s);
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_TRUE(*got == value) << size;
  }
  const std::string longest(kMostKeyBytes, '\0');  // any byte may be in a key
  ASSERT_TRUE(first().set(longest, {9}));
  EXPECT_EQ(*second().get(longest, 10s), Bytes{9});
}

TEST_P(StoreTest, RefusesWhatIsTooLarge) {
  const Status value = first().set("key", Bytes(kMostValueBytes + 1));
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code(), Code::invalid);
  EXPECT_NE(value.error().message().find("1048577"), std::string::npos) << value.error().message();
  for (const std::string& key : {std::string(), std::string(kMostKeyBytes + 1, 'k')}) {
    EXPECT_EQ(first().set(key, {1}).error().code(), Code::invalid);
    EXPECT_EQ(first().get(key, 0ms).error().code(), Code::invalid);
    EXPECT_EQ(first().add(key, 1).error().code(), Code::invalid);
  }
  EXPECT_TRUE(first().set("key", {1})) << "a refusal does no harm";
}

TEST_P(StoreTest, GetWaitsForTheKey) {
  std::thread later([&] {
    std::this_thread::sleep_for(50ms);
    EXPECT_TRUE(first().set("late", {5}));
  });
  Result<Bytes> got = second().get("late", 20s);
  later.join();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(*got, Bytes{5});
}

TEST_P(StoreTest, GetEndsAtItsTime) {
  for (const auto wait : {0ms, 1ms, 70ms, -5ms}) {
    Result<Bytes> got = second().get("never", wait);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code(), Code::timeout);
    EXPECT_NE(got.error().message().find("'never'"), std::string::npos);
  }
  EXPECT_TRUE(second().set("never", {1})) << "the store goes on";
  EXPECT_TRUE(second().get("never", 0ms));
}

TEST_P(StoreTest, AGetThatWaitsHoldsUpNobodyElse) {
  // One store object, several threads: each waits for what the next one sets.
  constexpr int kThreads = 8;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      if (i > 0) {
        Result<Bytes> got = second().get("chain " + std::to_string(i - 1), 20s);
        ASSERT_TRUE(got) << got.error().message();
        EXPECT_EQ(*got, Bytes{static_cast<std::uint8_t>(i - 1)});
      }
      EXPECT_TRUE(second().set("chain " + std::to_string(i), {static_cast<std::uint8_t>(i)}));
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_P(StoreTest, CountersAddUp) {
  EXPECT_EQ(*first().add("count", 5), 5);
  EXPECT_EQ(*second().add("count", -7), -2);
  EXPECT_EQ(*first().add("count", 0), -2);
  EXPECT_EQ(*first().add("large", INT64_MAX), INT64_MAX);
  EXPECT_EQ(*second().add("large", 1), INT64_MIN) << "wraps, as unsigned numbers do";
  ASSERT_TRUE(first().set("text", bytesOf("abc")));
  Result<std::int64_t> refused = second().add("text", 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::invalid);
  EXPECT_NE(refused.error().message().find("'text'"), std::string::npos);
}

TEST_P(StoreTest, CountersAddUpAcrossThreads) {
  constexpr int kThreads = 4, kTimes = 50;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Store& store = i % 2 ? first() : second();
      for (int k = 0; k < kTimes; ++k) EXPECT_TRUE(store.add("sum", 1 + i));
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(*first().add("sum", 0), kTimes * (1 + 2 + 3 + 4));
}

TEST_P(StoreTest, ACounterWakesWhoWaitsForIt) {
  std::thread later([&] { EXPECT_TRUE(first().add("arrived", 3)); });
  Result<Bytes> got = second().get("arrived", 20s);
  later.join();
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(*got, (Bytes{3, 0, 0, 0, 0, 0, 0, 0}));
}

INSTANTIATE_TEST_SUITE_P(Kinds, StoreTest, testing::Values("local", "tcp", "unix"),
                         [](const auto& kind) { return kind.param; });

TEST(StoreTable, IsBounded) {
  StoreTable table;
  const std::size_t fits = kMostStoreBytes / (kMostValueBytes + 1);
  for (std::size_t i = 0; i < fits; ++i)
    ASSERT_TRUE(table.set(std::string(1, static_cast<char>(i)), Bytes(kMostValueBytes)));
  const Status full = table.set("one more", Bytes(kMostValueBytes));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code(), Code::memory);
  EXPECT_TRUE(table.set(std::string(1, '\0'), Bytes(kMostValueBytes))) << "replacing needs no more room";
  ASSERT_TRUE(table.set(std::string(1, '\0'), Bytes(0)));
  EXPECT_TRUE(table.set("other", Bytes(kMostValueBytes - 100))) << "room that was given up is free again";
}

}  // namespace
}  // namespace symccl
