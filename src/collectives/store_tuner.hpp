// Ordinary or streaming stores: by how long each took lately.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "kernels/kernels.hpp"
#include "symccl/communicator.hpp"

namespace symccl {

/// Which kind is better depends on the size of caches and on what the caches of two CPUs share, which changes where a
/// scheduler, or a hypervisor, moves them. So each rank goes on measuring: most operations of a kind and size use the
/// stores that were faster lately; two of the first four use the others, then one in 32, or in 128 where those are
/// clearly slower. For one thread.
class StoreTuner {
 public:
  /// `streamFrom`: bytes from which streaming is taken to be better until both are known. `handicap`: percent by which
  /// ordinary stores may take longer and still be chosen below kLarge, because whoever reads the data next finds it in
  /// a cache.
  explicit StoreTuner(std::size_t streamFrom, int handicap = kHandicap)
      : streamFrom_(streamFrom), handicap_(handicap) {}

  static constexpr int kHandicap = 15;
  /// Where ranks share CPUs, and so caches, what they store for each other is often there when they need it.
  static StoreTuner forSharedCpus() { return StoreTuner(kLarge, 100); }

  /// Sizes [kLeast, kMost) are tuned: below, one line after the other is stored before it matters; above, data leaves
  /// the caches anyway. From kLarge on some of it may.
  static constexpr std::size_t kLeast = std::size_t{16} << 10, kLarge = std::size_t{4} << 20,
                               kMost = std::size_t{32} << 20;
  static bool tunes(std::size_t bytes) { return bytes >= kLeast && bytes < kMost; }

  /// For sizes that are tuned.
  Stores choose(Kind kind, std::size_t bytes);
  /// How long the stores of an operation of `bytes` took.
  void took(Kind kind, std::size_t bytes, Stores stores, std::chrono::nanoseconds time);

 private:
  struct Class {
    std::array<std::int64_t, 2> nanoseconds{};  // by Stores; 0: not known
    unsigned turn = 0;
  };
  // One for each power of two.
  using Classes = std::array<Class, std::bit_width(kMost) - std::bit_width(kLeast)>;
  Class& classOf(Kind kind, std::size_t bytes) {
    return kinds_[static_cast<std::size_t>(kind)][std::bit_width(bytes) - std::bit_width(kLeast)];
  }

  std::size_t streamFrom_;
  int handicap_;
  std::array<Classes, static_cast<std::size_t>(Kind::scatterV) + 1> kinds_;
};

}  // namespace symccl
