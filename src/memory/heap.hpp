// A device's heap: one memfd that every process of the host maps whole.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/host.hpp"
#include "memory/offset_allocator.hpp"
#include "symccl/memory.hpp"
#include "symccl/result.hpp"

namespace symccl {

/// Segments are handed out in granules of this size.
inline constexpr std::size_t kGranule = std::size_t{2} << 20;
/// Device ordinals are 0..kDevices-1; heap s stands at kWindowBase + s * kWindowStride where that range is free.
inline constexpr int kDevices = 64;

/// The address at which the heap of `ordinal` should stand in every process.
std::byte* windowAddress(int ordinal);

/// Whether a segment's pages are reserved when it is handed out, or by back() before they are written.
enum class Backing { reserved, sparse };

/// This process's own heap. Made on first use of its ordinal, never destroyed: tensors outlive everything. In a forked
/// child the parent's heaps stay mapped, but ofDevice() makes a fresh one. Thread-safe.
class Heap {
 public:
  /// The heap of `ordinal` (-1: the default device). Code::invalid for a bad ordinal, Code::memory if the address space
  /// or the machine leaves less than 64 MiB, Code::system if memfd_create or mmap refuse.
  static Result<Heap*> ofDevice(int ordinal);
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
  /// Fresh pages are zero. Code::memory says asked, free, limit, and which variable raises it - also when the machine or the
  /// cgroup, not the heap, is the limit (checked before reserving, so that nothing is killed or gets SIGBUS).
  Result<std::size_t> reserve(std::size_t bytes, Backing backing);
  /// Gives a segment back, its pages too, once nothing pins it.
  void release(std::size_t offset);
  /// Reserves the pages of a part of a sparse segment before it is written; a no-op for parts that have them.
  Status back(std::size_t offset, std::size_t bytes);

  /// Keeps the segments that hold the range from being reused until unpin() with the same range. Lock-free.
  void pin(std::size_t offset, std::size_t bytes);
  void unpin(std::size_t offset, std::size_t bytes);

  HeapReport report() const;

 private:
  struct Segment;
  Heap(int ordinal, FileDescriptor memory, std::byte* base, std::size_t bytes);
  static Result<std::unique_ptr<Heap>> make(int ordinal);

  const int ordinal_;
  const Uuid id_;
  const FileDescriptor memory_;
  std::byte* const base_;
  const std::size_t bytes_;
  const std::uint64_t forkGeneration_;

  mutable std::mutex mutex_;
  OffsetAllocator segments_;                          // guarded by mutex_
  std::size_t used_ = 0, peak_ = 0;                   // guarded by mutex_
  std::unique_ptr<std::atomic<std::uint32_t>[]> pins_;  // per granule
};

}  // namespace symccl
