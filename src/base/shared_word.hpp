// A word in memory that other processes read.
#pragma once

#include <atomic>
#include <cstdint>

namespace symccl {

/// The right to load a word again and again. Only waitUntil() has one to give, so only it can poll.
class Poll {
 private:
  friend struct PollKey;
  Poll() = default;
};

/// An atomic word in a control area. Lock-free, address-free, trivially destructible; zero bytes are a valid zero.
/// Writers: publish() for the word that says "the rest is there", put() for the rest. Readers: read() once, or
/// through waitUntil().
template <class T>
class SharedWord {
  static_assert(std::atomic<T>::is_always_lock_free && sizeof(std::atomic<T>) == sizeof(T));

 public:
  /// Release: what was written before is visible to whoever reads this value.
  void publish(T value) { word_.store(value, std::memory_order_release); }
  /// Relaxed: ordered by a later publish().
  void put(T value) { word_.store(value, std::memory_order_relaxed); }
  /// Acquire, once: never in a loop that waits for it to change.
  T read() const { return word_.load(std::memory_order_acquire); }
  /// Relaxed, once: a word that an earlier acquire has ordered.
  T get() const { return word_.load(std::memory_order_relaxed); }
  /// Acquire, as often as the holder of a Poll likes.
  T poll(Poll) const { return word_.load(std::memory_order_acquire); }
  T fetchAdd(T amount) { return word_.fetch_add(amount, std::memory_order_acq_rel); }
  /// For futex(2).
  const void* address() const { return &word_; }

 private:
  std::atomic<T> word_;
};

}  // namespace symccl
