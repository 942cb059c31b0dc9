// The emulated device `npu`, for those who build on it: the backend `hccl` and the Python binding.
//
// An npu tensor is host memory labelled `npu:i`, in the heap of device ordinal i. Kernels run inside the call, on the
// calling thread; collectives are the only work that goes on beside it, and they announce themselves with addPending().
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "mem_pool.hpp"
#include "symccl/memory.hpp"

namespace symccl::npu {

inline constexpr c10::DeviceType kNpu = c10::DeviceType::PrivateUse1;

// --- Devices ---

/// How many devices there are (SYMCCL_NPU_DEVICES); the same for the whole life of the process.
int deviceCount();
/// The device of the current thread, 0 in a new one.
int currentDevice();
/// Throws if there is no such device.
void setDevice(int ordinal);
/// `ordinal`, or the current device for -1; throws if there is no such device.
int resolveDevice(int ordinal);

// --- Streams ---
//
// A stream is a number that carries its priority; pending work is kept by stream. The lower the number of a priority,
// the sooner the stream is served, as torch has it.

inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -1;

/// A new stream of the device; `priority` is brought into the range above.
c10::Stream newStream(int ordinal, int priority);
c10::Stream defaultStream(int ordinal);
/// The current thread's stream of the device, and a change of it.
c10::Stream currentStream(int ordinal);
void setCurrentStream(const c10::Stream& stream);
int priorityOf(const c10::Stream& stream);

// --- Tensors ---

/// A CPU tensor over the bytes of an npu tensor, which it keeps alive; same sizes, strides, and conjugate and negative
/// bits, no gradient. Undefined tensors and tensors of other devices come back as they are.
at::Tensor cpuAlias(const at::Tensor& tensor);
/// The same bytes as a tensor of npu:`ordinal`. The storage itself changes its label: the CPU tensor must be the only
/// one that uses it. Memory that does not lie in the device's heap is copied there.
at::Tensor adopt(const at::Tensor& cpu, int ordinal);

// --- Pending work ---

using Clock = std::chrono::steady_clock;
/// Asks a piece of work for the time of its end. With `wait` it blocks until then (however it ends: errors belong to
/// whoever started the work), without it returns nothing while the work is under way. From any thread, also two at
/// once. It throws nothing of the work's, only what ends a wait early (Ctrl-C); and it should not own tensors, because
/// it may be kept for a while after the end.
using Poll = std::function<std::optional<Clock::time_point>(bool wait)>;

/// Has synchronize(), events and queries of `stream` account for a piece of work. It is forgotten once it has ended.
void addPending(const c10::Stream& stream, Poll poll);
/// Whether everything that was added to the stream has ended.
bool queryStream(const c10::Stream& stream);
/// Blocks until everything that was added to the stream before the call has ended. Without the GIL.
void synchronizeStream(const c10::Stream& stream);
/// The same for all streams of the device.
void synchronizeDevice(int ordinal);

// --- Memory ---

/// The pool that the current thread's tensors of the device come from: the innermost PoolScope's, else the device's
/// own.
std::shared_ptr<Pool> currentPool(int ordinal);

/// `with torch.npu.use_mem_pool(pool)`: tensors of the pool's device that the current thread makes come from `pool`.
/// Scopes nest; tensors outlive them, and the pool.
class PoolScope {
 public:
  explicit PoolScope(std::shared_ptr<pytorch::MemPool> pool) : pool_(std::move(pool)) {}
  ~PoolScope();
  /// Throws if entered already, or in a forked child of the process that made the pool.
  void enter();
  /// Throws if scopes that were entered later on this thread are still open, or on another thread.
  void exit();

 private:
  std::shared_ptr<pytorch::MemPool> pool_;
  bool entered_ = false;
};

}  // namespace symccl::npu
