// The heaps of this process, by device and by address, and the default device.

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/checks.hpp"
#include "base/environment.hpp"
#include "base/fork.hpp"
#include "base/log.hpp"
#include "memory/heap.hpp"
#include "memory/heap_pools.hpp"

namespace symccl {
namespace {

// A mutex that another thread held at fork() stays locked in the child for ever. So each process of a chain of forks
// makes its own, on first use.
struct Process {
  explicit Process(std::uint64_t number) : generation(number) {}
  const std::uint64_t generation;
  std::mutex making;                  // held while a heap is made
  std::atomic<int> defaultInUse{-1};  // the default device, once its heap was made
};

Process& thisProcess() {
  static constinit std::atomic<Process*> newest{nullptr};
  Process* known = newest.load(std::memory_order_acquire);
  if (known && known->generation == forkGeneration()) return *known;
  auto* fresh = new Process(forkGeneration());
  if (newest.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;
  return *known;
}

constinit std::atomic<Heap*> newestHeap{nullptr};
constinit std::atomic<int> chosenDevice{-1};

std::optional<int> numberFromLauncher(const char* variable) {
  const char* value = std::getenv(variable);
  if (!value) return std::nullopt;
  int number = 0;
  const auto [end, error] = std::from_chars(value, value + std::strlen(value), number);
  if (error != std::errc() || *end != '\0' || number < 0) return 0;
  return number;
}

// One process a device is what launchers arrange; a malformed value is no reason to refuse.
int deviceFromLauncher() {
  auto rank = numberFromLauncher("LOCAL_RANK");
  if (!rank) rank = numberFromLauncher("RANK");
  return rank.value_or(0) % kDevices;
}

}  // namespace

int defaultDevice() {
  const int inUse = thisProcess().defaultInUse.load(std::memory_order_relaxed);
  if (inUse >= 0) return inUse;
  const int chosen = chosenDevice.load(std::memory_order_relaxed);
  return chosen >= 0 ? chosen : deviceFromLauncher();
}

Status setDefaultDevice(int ordinal) {
  if (ordinal < 0 || ordinal >= kDevices) return invalid("default device ", ordinal, "; accepted: 0 to ", kDevices - 1);
  Process& process = thisProcess();
  const std::lock_guard lock(process.making);
  const int present = defaultDevice();
  if (ordinal != present && Heap::ofDeviceIfMade(present)) {
    return invalid("the default device cannot become ", ordinal, ": the heap of the present one, ", present,
                   ", was made already");
  }
  chosenDevice.store(ordinal, std::memory_order_relaxed);
  return {};
}

Result<HeapReport> heapReport(int ordinal) {
  Result<Heap*> heap = Heap::ofDevice(ordinal);
  if (!heap) return heap.error();
  return (*heap)->report();
}

PoolTotals poolTotals(int ordinal) {
  Heap* heap = Heap::ofDeviceIfMade(ordinal);
  return heap ? heap->pools().totals() : PoolTotals{};
}

void resetPoolPeaks(int ordinal) {
  if (Heap* heap = Heap::ofDeviceIfMade(ordinal)) heap->pools().resetPeaks();
}

Result<int> emulatedDevices() {
  if (Status settings = environmentStatus(); !settings) return settings.error();
  constexpr int kUsual = 8;
  if (const int chosen = environment().npuDevices; chosen > 0) return chosen;
  return std::clamp(numberFromLauncher("LOCAL_WORLD_SIZE").value_or(kUsual), kUsual, kDevices);
}

Heap* Heap::ofDeviceIfMade(int ordinal) {
  for (Heap* heap = newestHeap.load(std::memory_order_acquire); heap; heap = heap->older_) {
    if (heap->ordinal_ == ordinal && !heap->inherited()) return heap;
  }
  return nullptr;
}

Heap* Heap::containing(const void* address) {
  for (Heap* heap = newestHeap.load(std::memory_order_acquire); heap; heap = heap->older_) {
    // Wraps for addresses below the heap.
    const auto offset = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(heap->base_);
    if (offset < heap->bytes_) return heap;
  }
  return nullptr;
}

Result<Heap*> Heap::ofDevice(int ordinal) {
  if (ordinal < -1 || ordinal >= kDevices) {
    return invalid("device ", ordinal, "; accepted: 0 to ", kDevices - 1, ", or -1 for the default device");
  }
  Process& process = thisProcess();
  const int known = ordinal == -1 ? process.defaultInUse.load(std::memory_order_relaxed) : ordinal;
  if (Heap* heap = ofDeviceIfMade(known)) return heap;

  const std::lock_guard lock(process.making);
  const int device = ordinal == -1 ? defaultDevice() : ordinal;
  Heap* heap = ofDeviceIfMade(device);
  if (!heap) {
    Result<Heap*> made = make(device);
    if (!made) return made;
    heap = *made;
    heap->older_ = newestHeap.load(std::memory_order_relaxed);
    newestHeap.store(heap, std::memory_order_release);  // the lock makes this the only writer
    log(LogLevel::info, "HEAP", -1, "device ", device, " has a heap of ", bytesText(heap->bytes_), " at ",
        static_cast<void*>(heap->base_));
  }
  if (ordinal == -1) process.defaultInUse.store(device, std::memory_order_relaxed);
  return heap;
}

}  // namespace symccl
