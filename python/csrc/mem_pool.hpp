// symccl.MemPool: a pool as PyTorch's users know it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "pool_allocator.hpp"
#include "symccl/memory.hpp"

namespace symccl::pytorch {

/// Memory for tensors that every rank of the host can reach. Thread-safe.
class MemPool {
 public:
  /// A pool on the heap of the allocator's device. Makes the heap if there is none yet.
  explicit MemPool(std::shared_ptr<PoolAllocator> allocator);

  const std::shared_ptr<PoolAllocator>& allocator() const { return allocator_; }
  const std::shared_ptr<Pool>& pool() const { return pool_; }
  std::uint64_t id() const { return pool_->id(); }
  /// One for the object itself, and one for each use_mem_pool that is entered.
  int useCount() const { return 1 + uses_; }
  std::vector<SegmentReport> snapshot() const { return pool_->snapshot(); }
  /// Throws in a forked child of the process that made the pool: the memory is the parent's.
  void checkOwned() const;
  void countUse(int change) { uses_ += change; }

 private:
  const std::shared_ptr<PoolAllocator> allocator_;
  const std::shared_ptr<Pool> pool_;
  const int process_;
  std::atomic<int> uses_{0};
};

/// What `with symccl.use_mem_pool(pool)` enters and leaves. Each may be entered once.
class MemPoolUse {
 public:
  explicit MemPoolUse(std::shared_ptr<MemPool> pool) : pool_(std::move(pool)) {}
  ~MemPoolUse();
  void enter();
  /// Throws if uses that were entered later on this thread are still open, or on another thread.
  void exit();

 private:
  const std::shared_ptr<MemPool> pool_;
  std::unique_ptr<PoolUse> use_;
};

}  // namespace symccl::pytorch
