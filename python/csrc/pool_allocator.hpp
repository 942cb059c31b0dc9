// Routes PyTorch's CPU allocations to pools.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <memory>
#include <mutex>

#include "symccl/memory.hpp"

namespace symccl::pytorch {

/// `backend.mem_allocator`: allocates from the heap of a device. One object for each ordinal, never destroyed.
class PoolAllocator final : public c10::Allocator {
 public:
  /// The allocator of the heap of `ordinal` (-1: the default device).
  static std::shared_ptr<PoolAllocator> ofDevice(int ordinal);

  explicit PoolAllocator(int ordinal) : ordinal_(ordinal) {}
  int ordinal() const { return ordinal_; }

  /// From a pool of the allocator's own; throws c10::OutOfMemoryError.
  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }

 private:
  const int ordinal_;
  std::once_flag made_;
  std::shared_ptr<Pool> pool_;
};

/// `bytes` of `pool`'s memory labelled `device`; nothing is allocated for 0 bytes. A profiler is told that it is memory
/// of `owner`. Throws c10::OutOfMemoryError.
c10::DataPtr allocateFrom(Pool& pool, std::size_t bytes, c10::Device device, c10::Device owner);
/// What frees the memory of allocateFrom(): a c10::DataPtr that has it came from a pool.
c10::DeleterFnPtr poolDeleter();

/// While it lives, CPU tensors that the current thread allocates come from `pool`; the innermost use wins. The first
/// one in the process puts an allocator in front of PyTorch's own that asks these uses. Must end on the thread that
/// began it, in reverse order. `owner` is the device that a profiler is told.
class PoolUse {
 public:
  explicit PoolUse(Pool& pool, c10::Device owner = c10::Device(c10::DeviceType::CPU));
  ~PoolUse();
  PoolUse(const PoolUse&) = delete;
  PoolUse& operator=(const PoolUse&) = delete;

  Pool& pool() const { return pool_; }
  c10::Device owner() const { return owner_; }
  /// The innermost use of the current thread, or null.
  static PoolUse* current();

 private:
  Pool& pool_;
  const c10::Device owner_;
  PoolUse* const outer_;
};

}  // namespace symccl::pytorch
