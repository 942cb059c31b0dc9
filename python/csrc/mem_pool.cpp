#include "mem_pool.hpp"

#include <unistd.h>

#include <c10/util/Exception.h>

namespace symccl::pytorch {
namespace {

std::shared_ptr<Pool> makePool(int ordinal) {
  auto pool = Pool::create(ordinal);
  if (pool) return std::move(*pool);
  const Error& error = pool.error();
  TORCH_CHECK_WITH(OutOfMemoryError, error.code() != Code::memory, "symccl: ", error.message());
  TORCH_CHECK(false, "symccl: ", error.message());
}

}  // namespace

MemPool::MemPool(std::shared_ptr<PoolAllocator> allocator)
    : allocator_(std::move(allocator)), pool_(makePool(allocator_->ordinal())), process_(getpid()) {}

void MemPool::checkOwned() const {
  TORCH_CHECK(process_ == getpid(), "symccl: this MemPool was made by process ", process_,
              "; a forked child cannot use its parent's pool, but it can make one of its own");
}

void MemPoolUse::enter() {
  TORCH_CHECK(use_ == nullptr, "symccl: this use of a MemPool has been entered already");
  pool_->checkOwned();
  use_ = std::make_unique<PoolUse>(*pool_->pool());
  pool_->countUse(1);
}

void MemPoolUse::exit() {
  TORCH_CHECK(use_ != nullptr && PoolUse::current() == use_.get(),
              "symccl: use_mem_pool must be left on the thread that entered it, the innermost one first");
  use_.reset();
  pool_->countUse(-1);
}

// A use that was never left (its generator was abandoned) stays the thread's: its memory must not go.
MemPoolUse::~MemPoolUse() {
  if (use_ == nullptr) return;
  if (PoolUse::current() == use_.get()) {
    exit();
    return;
  }
  new std::shared_ptr<MemPool>(pool_);
  (void)use_.release();
}

}  // namespace symccl::pytorch
