// Buffers of each kind of memory that the paths distinguish.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "unit/thread_ranks.hpp"

namespace symccl::test {

enum class Memory { unregistered, registered };

/// A buffer of `bytes` with guard bytes on both sides, at an odd offset when asked.
class Buffer {
 public:
  Buffer(std::size_t bytes, const std::shared_ptr<Pool>& pool, std::size_t shift = 0)
      : bytes_(bytes), pool_(pool), shift_(shift) {
    const std::size_t whole = bytes + 2 * kGuard + shift;
    base_ = static_cast<unsigned char*>(pool ? *pool->allocate(whole) : ::operator new(whole));
    std::memset(base_, 0xA5, whole);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    for (std::size_t i = 0; i < kGuard; ++i) {
      EXPECT_EQ(base_[shift_ + i], 0xA5) << "byte before the buffer";
      EXPECT_EQ(base_[shift_ + kGuard + bytes_ + i], 0xA5) << "byte behind the buffer";
    }
    pool_ ? pool_->free(base_) : ::operator delete(base_);
  }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(base_ + shift_ + kGuard);
  }
  void* data() { return as<void>(); }

 private:
  static constexpr std::size_t kGuard = 64;
  const std::size_t bytes_;
  const std::shared_ptr<Pool> pool_;
  const std::size_t shift_;
  unsigned char* base_;
};

/// A pool registered with the communicator, or none.
inline std::shared_ptr<Pool> poolFor(Communicator& communicator, Memory memory) {
  if (memory == Memory::unregistered) return nullptr;
  auto pool = Pool::create();
  EXPECT_TRUE(pool);
  EXPECT_OK(communicator.registerPool(*pool));
  return *pool;
}

inline OperationCounters countersOf(Communicator& communicator, Kind kind) {
  for (const auto& [name, counters] : communicator.report().operations) {
    if (name == nameOf(kind)) return counters;
  }
  ADD_FAILURE() << "no counters of " << nameOf(kind);
  return {};
}

/// Every element of every rank different, small enough that sums are exact.
inline std::int32_t element(int rank, std::size_t index) {
  return static_cast<std::int32_t>(index % 100003) * 16 + rank;
}

}  // namespace symccl::test
