// A device's heap: one memfd that every process of the host maps whole.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/host.hpp"
#include "memory/atomic_bits.hpp"
#include "memory/granules.hpp"
#include "memory/heap_size.hpp"
#include "memory/offset_allocator.hpp"
#include "memory/window.hpp"
#include "symccl/memory.hpp"
#include "symccl/result.hpp"

namespace symccl {

class HeapPools;

/// Whether a segment's pages are reserved when it is handed out, or by back() before they are written.
enum class Backing { reserved, sparse };

/// This process's own heap. Made on first use of its ordinal, never destroyed: tensors outlive everything. In a forked
/// child the parent's heaps stay mapped, but ofDevice() makes a fresh one. Thread-safe.
///
/// Of an inherited heap (inherited()) a child can only ask: reserve() and back() are Code::forked, release(),
/// discard(), pin() and unpin() do nothing.
class Heap {
 public:
  /// The heap of `ordinal` (-1: the default device). Code::invalid for a bad ordinal or a malformed variable,
  /// Code::memory if the address space or the machine leaves less than 64 MiB, Code::system if memfd_create or mmap
  /// refuse.
  static Result<Heap*> ofDevice(int ordinal);
  /// The same if it was made already, else null. Lock-free.
  static Heap* ofDeviceIfMade(int ordinal);
  /// The heap of this process (or, in a forked child, of its parent) that holds `address`, or null. Lock-free.
  static Heap* containing(const void* address);

  int ordinal() const { return ordinal_; }
  const Uuid& id() const { return id_; }
  std::byte* base() const { return base_; }
  std::size_t bytes() const { return bytes_; }
  int descriptor() const { return memory_.get(); }
  /// Whether it stands at windowAddress(ordinal).
  bool symmetric() const { return base_ == windowAddress(ordinal_); }
  /// Whether this is a parent's heap seen from a forked child.
  bool inherited() const;

  /// A segment of `bytes` rounded up to granules; its offset. Deterministic: equal call sequences give equal offsets.
  /// Fresh pages are zero. Code::memory says asked, free, limit, and which variable raises it - also when the machine
  /// or the cgroup, not the heap, is the limit (checked before reserving, so that nothing is killed or gets SIGBUS).
  Result<std::size_t> reserve(std::size_t bytes, Backing backing);
  /// Gives a segment back, its pages too, once nothing pins it: at once, or in the last unpin().
  void release(std::size_t offset);
  /// Reserves the pages of a part of a sparse segment before it is written (a little more around it too: pages come in
  /// pieces of 64 KiB); a few loads for parts that have them. Code::memory as reserve().
  Status back(std::size_t offset, std::size_t bytes);
  /// Gives the pages of a part of a segment back, which stays handed out and reads as zero from now on. Whole pages.
  void discard(std::size_t offset, std::size_t bytes);

  /// Keeps the segments that hold the range from being reused until unpin() with the same range. Lock-free but for the
  /// last unpin() of a segment that was released meanwhile, which gives its pages back.
  void pin(std::size_t offset, std::size_t bytes);
  void unpin(std::size_t offset, std::size_t bytes);

  HeapReport report() const;

  /// The pools on this heap.
  HeapPools& pools() { return *pools_; }

 private:
  struct Range {
    std::size_t offset, bytes;
  };

  Heap(int ordinal, FileDescriptor memory, std::byte* base, HeapSize size);
  ~Heap() = delete;
  static Result<Heap*> make(int ordinal);

  Error forkedError() const;
  Error exhausted(std::size_t bytes);
  bool pinned(Range range) const;
  void sweepLimbo();
  void returnSegment(Range range);
  Status backUnits(UnitRange units);

  const int ordinal_;
  const Uuid id_;
  const FileDescriptor memory_;
  std::byte* const base_;
  const std::size_t bytes_;
  const std::string raise_;  ///< what makes a heap larger, for people
  const std::uint64_t forkGeneration_;
  Heap* older_ = nullptr;  ///< the next in the list of all heaps of the process

  mutable std::mutex mutex_;
  OffsetAllocator segments_;             // guarded by mutex_
  std::size_t used_ = 0, peak_ = 0;      // guarded by mutex_
  std::vector<Range> limbo_;             // guarded by mutex_; released, but pinned
  std::atomic<std::size_t> inLimbo_{0};  // limbo_.size()

  std::mutex pagesMutex_;  // held while pages come or go, never together with mutex_
  AtomicBits backed_;      // per kBackingUnit: whether its pages are reserved

  const std::unique_ptr<std::atomic<std::uint32_t>[]> pins_;  // per granule
  HeapPools* const pools_;                                    // lives as long as the heap: for ever
};

}  // namespace symccl
