// Whether this process is a forked child of the one that made a thing.
#pragma once

#include <cstdint>
#include <mutex>

namespace symccl {

/// How many forks lie between the process that loaded this code and this one: 0 in the original. Things remember the
/// value at their creation; a different one later means that they are the parent's. A relaxed load.
std::uint64_t forkGeneration();

/// Registers `handler` to run in each forked child, before fork() returns there. Async-signal-safe handlers only; at
/// most 8; never removed. Registering one twice is a no-op.
void onForkInChild(void (*handler)());

/// A mutex of what a forked child goes on using. fork() waits until nobody holds it, so that it is free in the child
/// too. Held for moments only, never while another one is; never destroyed; at most 8 in a process.
class ForkSafeMutex {
 public:
  ForkSafeMutex();
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

}  // namespace symccl
