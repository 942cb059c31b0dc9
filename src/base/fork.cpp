#include "base/fork.hpp"

#include <pthread.h>

#include <array>
#include <atomic>

namespace symccl {
namespace {

using Handler = void (*)();

constinit std::atomic<std::uint64_t> generation{0};
constinit std::array<std::atomic<Handler>, 8> handlers{};

// Those that fork() waits for. While it runs none is added.
constinit std::mutex registering;
constinit std::array<ForkSafeMutex*, 8> mutexes{};
constinit std::size_t known = 0;

void beforeFork() {
  registering.lock();
  for (std::size_t i = 0; i < known; ++i) mutexes[i]->lock();
}

void afterFork() {
  for (std::size_t i = known; i-- > 0;) mutexes[i]->unlock();
  registering.unlock();
}

void inChild() {
  afterFork();
  generation.fetch_add(1, std::memory_order_relaxed);
  for (auto& slot : handlers) {
    if (const Handler handler = slot.load(std::memory_order_acquire)) handler();
  }
}

// While the library is loaded, so that no call has to check for it.
[[maybe_unused]] const int registered = pthread_atfork(beforeFork, afterFork, inChild);

}  // namespace

std::uint64_t forkGeneration() { return generation.load(std::memory_order_relaxed); }

ForkSafeMutex::ForkSafeMutex() {
  const std::lock_guard lock(registering);
  if (known < mutexes.size()) mutexes[known++] = this;
}

void onForkInChild(Handler handler) {
  for (auto& slot : handlers) {
    Handler present = nullptr;
    if (slot.compare_exchange_strong(present, handler, std::memory_order_acq_rel) || present == handler) return;
  }
}

}  // namespace symccl
