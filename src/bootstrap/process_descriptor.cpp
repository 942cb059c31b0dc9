#include "bootstrap/process_descriptor.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "base/fork.hpp"

namespace symccl {
namespace {

constexpr int kSlots = 16384;
constexpr int kFree = 0;  // zero, so that the array costs no page before its first use; a slot holds fd + 1

std::array<std::atomic<int>, kSlots> slots;
std::atomic<int> slotsUsed{0};  // highest index ever taken, plus one

// Runs in a forked child, where another thread of the parent may have held any lock: only atomics and close().
void closeAllInChild() {
  const int used = slotsUsed.load(std::memory_order_acquire);
  for (int i = 0; i < used; ++i) {
    const int held = slots[static_cast<std::size_t>(i)].exchange(kFree, std::memory_order_relaxed);
    if (held != kFree) ::close(held - 1);
  }
}

int takeSlot(int fd) {
  onForkInChild(closeAllInChild);  // the first time only; no guard, which a fork could leave taken
  for (int i = 0; i < kSlots; ++i) {
    int expected = kFree;
    if (!slots[static_cast<std::size_t>(i)].compare_exchange_strong(expected, fd + 1, std::memory_order_relaxed))
      continue;
    int used = slotsUsed.load(std::memory_order_relaxed);
    while (used < i + 1 && !slotsUsed.compare_exchange_weak(used, i + 1, std::memory_order_release)) {}
    return i;
  }
  return -1;
}

}  // namespace

ProcessDescriptor::ProcessDescriptor(FileDescriptor descriptor)
    : fd_(descriptor.release()), slot_(fd_ >= 0 ? takeSlot(fd_) : -1), generation_(forkGeneration()) {}

ProcessDescriptor& ProcessDescriptor::operator=(ProcessDescriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
    slot_ = other.slot_;
    generation_ = other.generation_;
  }
  return *this;
}

void ProcessDescriptor::reset() {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0 || generation_ != forkGeneration()) return;
  // The slot first: a fork between the two then leaves a spare copy in the child; the other order would let the child
  // close whatever got this number next.
  if (slot_ >= 0) slots[static_cast<std::size_t>(slot_)].store(kFree, std::memory_order_relaxed);
  ::close(fd);
}

}  // namespace symccl
