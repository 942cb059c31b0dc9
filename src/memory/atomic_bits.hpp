// A fixed row of bits that many threads set, clear and look at.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace symccl {

/// All bits start clear. Every access is sequentially consistent: 'set a bit, then look at a counter' against 'count,
/// then look at the bit' never misses on both sides. A range, which must lie within size(), is atomic word by word, not
/// as a whole. Lock-free.
class AtomicBits {
 public:
  explicit AtomicBits(std::size_t bits) : bits_(bits), words_(new std::atomic<std::uint64_t>[words()]()) {}

  std::size_t size() const { return bits_; }

  void set(std::size_t first, std::size_t count) {
    eachWord(first, count, [&](std::size_t word, std::uint64_t mask) { return words_[word].fetch_or(mask), true; });
  }
  void clear(std::size_t first, std::size_t count) {
    eachWord(first, count, [&](std::size_t word, std::uint64_t mask) { return words_[word].fetch_and(~mask), true; });
  }
  /// Sets one bit; whether it was clear.
  bool claim(std::size_t bit) {
    const std::uint64_t mask = std::uint64_t{1} << bit % 64;
    return (words_[bit / 64].fetch_or(mask) & mask) == 0;
  }
  bool test(std::size_t bit) const { return words_[bit / 64].load() >> bit % 64 & 1; }
  /// Whether every bit of the range is set; true of an empty one.
  bool all(std::size_t first, std::size_t count) const {
    return eachWord(first, count,
                    [&](std::size_t word, std::uint64_t mask) { return (words_[word].load() & mask) == mask; });
  }
  /// How many are set.
  std::size_t count() const {
    std::size_t sum = 0;
    for (std::size_t word = 0; word < words(); ++word)
      sum += static_cast<std::size_t>(std::popcount(words_[word].load()));
    return sum;
  }

 private:
  std::size_t words() const { return (bits_ + 63) / 64; }

  /// visit(word, mask) for each word of the range until one returns false; whether none did.
  template <class Visit>
  static bool eachWord(std::size_t first, std::size_t count, Visit visit) {
    while (count > 0) {
      const std::size_t shift = first % 64;
      const std::size_t here = std::min<std::size_t>(64 - shift, count);
      if (!visit(first / 64, ~std::uint64_t{0} >> (64 - here) << shift)) return false;
      first += here;
      count -= here;
    }
    return true;
  }

  const std::size_t bits_;
  const std::unique_ptr<std::atomic<std::uint64_t>[]> words_;
};

}  // namespace symccl
