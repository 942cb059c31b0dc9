// What the tests of heaps and pools share.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "memory/heap.hpp"
#include "symccl/memory.hpp"

namespace symccl {

inline constexpr std::size_t kMebibyte = std::size_t{1} << 20;

/// The heap of `ordinal`; each test takes an ordinal of its own, so that what one leaves behind does not matter to
/// another.
inline Heap& heapOf(int ordinal) {
  Result<Heap*> heap = Heap::ofDevice(ordinal);
  if (!heap) {
    ADD_FAILURE() << heap.error().message();
    std::abort();
  }
  return **heap;
}

/// A new pool on the heap of `ordinal`.
inline std::shared_ptr<Pool> poolOn(int ordinal) {
  auto pool = Pool::create(ordinal);
  EXPECT_TRUE(pool) << pool.error().message();
  return pool ? *pool : nullptr;
}

/// Bytes of memory that the heap takes.
inline std::size_t pagesOf(const Heap& heap) {
  struct stat status{};
  EXPECT_EQ(::fstat(heap.descriptor(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

/// Bytes of which every one depends on its place and on `seed`.
inline std::uint8_t patternByte(std::size_t seed, std::size_t at) {
  const std::uint64_t mixed = (seed * 0x9e3779b97f4a7c15u + at) * 0xbf58476d1ce4e5b9u;
  return static_cast<std::uint8_t>(mixed >> 56);
}
inline void fillPattern(void* to, std::size_t bytes, std::size_t seed) {
  for (std::size_t i = 0; i < bytes; ++i) static_cast<std::uint8_t*>(to)[i] = patternByte(seed, i);
}
inline bool hasPattern(const void* from, std::size_t bytes, std::size_t seed) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (static_cast<const std::uint8_t*>(from)[i] != patternByte(seed, i)) return false;
  }
  return true;
}
inline bool isZero(const void* from, std::size_t bytes) {
  const auto* data = static_cast<const std::uint8_t*>(from);
  return bytes == 0 || (data[0] == 0 && std::memcmp(data, data + 1, bytes - 1) == 0);
}

}  // namespace symccl
