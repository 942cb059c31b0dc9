#include "base/barrier.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "base/environment.hpp"

namespace symccl {

namespace {

bool registerMembarrier() {
#ifdef SYMCCL_THREAD_SANITIZER
  return false;
#else
  if (!environment().membarrier) return false;
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
#endif
}

}  // namespace

bool membarrierRegistered() {
  static const bool registered = registerMembarrier();
  return registered;
}

void asymmetricBarrier(bool fences) {
  if (!fences && ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace symccl
