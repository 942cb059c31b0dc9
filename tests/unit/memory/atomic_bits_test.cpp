#include "memory/atomic_bits.hpp"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

namespace symccl {
namespace {

TEST(AtomicBits, AgreesWithAVectorOfBool) {
  constexpr std::size_t kBits = 193;  // three words and one bit
  std::mt19937 random(7);
  AtomicBits bits(kBits);
  std::vector<bool> model(kBits, false);
  for (int step = 0; step < 3000; ++step) {
    const std::size_t first = random() % kBits, count = random() % (kBits - first + 1);
    const bool value = random() % 2;
    value ? bits.set(first, count) : bits.clear(first, count);
    for (std::size_t i = 0; i < count; ++i) model[first + i] = value;

    ASSERT_EQ(bits.count(), static_cast<std::size_t>(std::count(model.begin(), model.end(), true)));
    const std::size_t from = random() % kBits, length = random() % (kBits - from + 1);
    bool all = true;
    for (std::size_t i = from; i < from + length; ++i) {
      all = all && model[i];
      ASSERT_EQ(bits.test(i), model[i]);
    }
    ASSERT_EQ(bits.all(from, length), all) << from << " " << length;
  }
}

TEST(AtomicBits, WordBoundaries) {
  AtomicBits bits(192);
  for (const std::size_t first : {0, 1, 62, 63, 64, 65}) {
    for (const std::size_t count : {0, 1, 2, 62, 63}) {
      bits.clear(0, 192);
      bits.set(first, count);
      EXPECT_EQ(bits.count(), count);
      EXPECT_TRUE(bits.all(first, count));
      EXPECT_FALSE(bits.all(first, count + 1));
      EXPECT_FALSE(first > 0 && bits.all(first - 1, count + 1));
    }
  }
  bits.set(0, 192);
  EXPECT_TRUE(bits.all(0, 192));
}

TEST(AtomicBits, OneClaimerWins) {
  constexpr std::size_t kBits = 1000;
  AtomicBits bits(kBits);
  std::atomic<std::size_t> won{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::size_t bit = 0; bit < kBits; ++bit) won += bits.claim(bit);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(won, kBits);
  EXPECT_TRUE(bits.all(0, kBits));
}

}  // namespace
}  // namespace symccl
