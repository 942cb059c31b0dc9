// Copies of every length, from and to everywhere: all bytes, and no byte more.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "guarded_buffer.hpp"
#include "kernels/dispatch.hpp"
#include "reference.hpp"

namespace symccl::test {
namespace {

constexpr Stores kBothStores[] = {Stores::ordinary, Stores::streaming};
constexpr unsigned char kCanary = 0xc3;
constexpr std::size_t kMargin = 64;

bool untouched(const char* begin, const char* end) {
  return std::all_of(begin, end, [](char byte) { return static_cast<unsigned char>(byte) == kCanary; });
}

/// Some pages: lines and blocks in full, one less and one more, and beyond the size at which copies run in four places.
std::vector<std::size_t> lengths() {
  std::vector<std::size_t> result(301);
  std::iota(result.begin(), result.end(), 0);
  for (std::size_t edge : {1024, 4096, 8192, 256 * 1024, 256 * 1024 + 256}) {
    for (std::size_t near : {edge - 1, edge, edge + 1, edge + 63, edge + 65}) result.push_back(near);
  }
  result.insert(result.end(), {1031, 65537, 1048583});
  return result;
}

TEST(Copy, EveryLengthBetweenPagesWithoutAccess) {
  const std::size_t most = 1048583;
  const auto data = randomBits(most, 3);
  GuardedBuffer source(most), destination(most + kMargin);
  std::memcpy(source.end() - most, data.data(), most);
  for (const KernelTable* kernels : kernelTables()) {
    for (Stores stores : kBothStores) {
      for (std::size_t bytes : lengths()) {
        char* const to = destination.end() - bytes;
        void* const address = to;
        std::memset(to - kMargin, kCanary, bytes + kMargin);
        copyWith(*kernels, {&address, 1}, source.end() - bytes, bytes, stores);
        ASSERT_EQ(std::memcmp(to, source.end() - bytes, bytes), 0) << kernels->name << " " << bytes;
        ASSERT_TRUE(untouched(to - kMargin, to)) << kernels->name << " " << bytes;
      }
    }
  }
}

TEST(Copy, EveryOffsetOfEveryPointer) {
  constexpr std::size_t kPointers = 4;
  for (std::size_t bytes : {5, 1999, 9001}) {
    const auto data = randomBits(bytes, bytes);
    std::vector<std::unique_ptr<GuardedBuffer>> buffers;
    for (std::size_t p = 0; p < kPointers; ++p) {
      buffers.push_back(std::make_unique<GuardedBuffer>(bytes + 3 * kMargin));
    }
    for (const KernelTable* kernels : kernelTables()) {
      for (Stores stores : kBothStores) {
        for (std::size_t moved = 0; moved < kPointers; ++moved) {
          for (std::size_t offset = 0; offset < kMargin; ++offset) {
            char* at[kPointers];
            for (std::size_t p = 0; p < kPointers; ++p) {
              buffers[p]->fill(kCanary);
              at[p] = buffers[p]->begin() + kMargin + (p == moved ? offset : 0);
            }
            std::memcpy(at[0], data.data(), bytes);
            void* const destinations[] = {at[1], at[2], at[3]};
            copyWith(*kernels, destinations, at[0], bytes, stores);
            for (std::size_t p = 0; p < kPointers; ++p) {
              ASSERT_EQ(std::memcmp(at[p], data.data(), bytes), 0)
                  << kernels->name << " pointer " << moved << " at " << offset;
              ASSERT_TRUE(untouched(buffers[p]->begin(), at[p]));
              ASSERT_TRUE(untouched(at[p] + bytes, buffers[p]->end()));
            }
          }
        }
      }
    }
  }
}

TEST(Copy, ToManyAndToItself) {
  for (std::size_t bytes : {0, 1, 1023, 4097, 32768, 65537, 300007}) {
    for (const KernelTable* kernels : kernelTables()) {
      for (Stores stores : kBothStores) {
        auto source = randomBits(bytes, 9);
        const auto before = source;
        for (std::size_t count : {0, 1, 2, 5}) {
          std::vector<std::vector<char>> results(count, std::vector<char>(bytes));
          std::vector<void*> destinations;
          for (auto& result : results) destinations.push_back(result.data());
          destinations.insert(destinations.begin() + static_cast<std::ptrdiff_t>(count / 2), source.data());
          copyWith(*kernels, destinations, source.data(), bytes, stores);
          for (const auto& result : results) ASSERT_EQ(result, before) << kernels->name << " " << bytes;
          ASSERT_EQ(source, before);
        }
      }
    }
  }
}

TEST(Copy, PublicFunctions) {
  const auto source = randomBits(70001, 4);
  for (Stores stores : kBothStores) {
    std::vector<char> one(source.size()), two(source.size()), three(source.size());
    copy(one.data(), source.data(), source.size(), stores);
    void* const destinations[] = {two.data(), three.data()};
    copyToAll(destinations, source.data(), source.size(), stores);
    EXPECT_EQ(one, source);
    EXPECT_EQ(two, source);
    EXPECT_EQ(three, source);
    copyToAll({}, source.data(), source.size(), stores);
    copy(nullptr, nullptr, 0, stores);
  }
}

}  // namespace
}  // namespace symccl::test
