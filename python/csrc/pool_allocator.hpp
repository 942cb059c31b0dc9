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

/// While it lives, CPU tensors that the current thread allocates come from `pool`; the innermost use wins. The first
/// one in the process puts an allocator in front of PyTorch's own that asks these uses. Must end on the thread that
/// began it, in reverse order.
class PoolUse {
 public:
  explicit PoolUse(Pool& pool);
  ~PoolUse();
  PoolUse(const PoolUse&) = delete;
  PoolUse& operator=(const PoolUse&) = delete;

  Pool& pool() const { return pool_; }
  /// The innermost use of the current thread, or null.
  static PoolUse* current();

 private:
  Pool& pool_;
  PoolUse* const outer_;
};

}  // namespace symccl::pytorch
