// Memory that every rank of a host can reach: the pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "symccl/export.hpp"
#include "symccl/result.hpp"

namespace symccl {

class Pool;

/// One segment of a pool as snapshot() reports it. Offsets and sizes are bytes.
struct SegmentReport {
  struct Block {
    std::size_t offset;  ///< from the segment's address
    std::size_t bytes;
    bool inUse;
  };
  void* address;
  std::size_t bytes;
  std::vector<Block> blocks;
};

/// A caching allocator over segments of this device's shared heap.
///
/// Blocks are multiples of 512 B and aligned to 512 B. Requests up to 1 MiB are cut from 2 MiB segments, up to 10 MiB
/// from 20 MiB segments, larger ones get a segment of their own, rounded up to 2 MiB. A freed block is reused by the
/// order of frees and allocations, never by address, so equal call sequences give equal offsets on every rank. Nothing
/// here talks to a peer. Thread-safe. In a forked child the parent's blocks stay usable; allocate() on the parent's
/// pool is Code::forked, frees and trim() do nothing, and it reports no segments.
class SYMCCL_EXPORT Pool : public std::enable_shared_from_this<Pool> {
 public:
  /// A pool on the heap of device `ordinal` (-1: this process's default device). The heap is made on first use.
  static Result<std::shared_ptr<Pool>> create(int ordinal = -1);
  /// Memory that lives on after the pool object: blocks in use stay valid until they are freed.
  virtual ~Pool() = default;

  /// `bytes` > 0 of memory, or Code::memory with asked, free, limit and the variable that raises it.
  virtual Result<void*> allocate(std::size_t bytes) = 0;
  /// Returns a block. From any thread.
  virtual void free(void* address) = 0;
  /// Gives segments without a used block back to the heap; returns the bytes given back.
  virtual std::size_t trim() = 0;
  /// A process-wide number, from 1.
  virtual std::uint64_t id() const = 0;
  virtual int ordinal() const = 0;
  virtual std::vector<SegmentReport> snapshot() const = 0;
  virtual std::size_t bytesInUse() const = 0;
  virtual std::size_t bytesReserved() const = 0;

  /// The pool that owns `address` (an address inside one of its blocks), or null.
  static std::shared_ptr<Pool> find(const void* address);
  /// Frees a block whatever pool it belongs to; false if `address` lies in no heap of this process.
  static bool freeAnywhere(void* address);
};

/// Chooses the default device ordinal (0..63) of this process; only before its heap is made.
SYMCCL_EXPORT Status setDefaultDevice(int ordinal);
SYMCCL_EXPORT int defaultDevice();

/// What this process's heap of `ordinal` (-1: default) holds. Bytes.
struct HeapReport {
  std::size_t bytes;  ///< size of the window
  std::size_t used;   ///< handed out as segments
  std::size_t peak;   ///< most ever handed out
  bool symmetric;     ///< whether the heap stands at its agreed address
  void* base;
};
SYMCCL_EXPORT Result<HeapReport> heapReport(int ordinal = -1);

/// Something counted: how much of it there is, the most there was since the peak was reset, all that ever came.
struct Tally {
  std::uint64_t current = 0, peak = 0, added = 0;

  void add(std::uint64_t amount) {
    current += amount;
    added += amount;
    peak = current > peak ? current : peak;
  }
  void remove(std::uint64_t amount) { current -= amount; }
};

/// All pools of a heap together, also those that are gone but have blocks in use.
struct PoolTotals {
  Tally blocks, blockBytes;      ///< in use
  Tally segments, segmentBytes;  ///< held
};
/// Of this process's heap of `ordinal`; zeros where it has not been made.
SYMCCL_EXPORT PoolTotals poolTotals(int ordinal);
/// Peaks become what there is now.
SYMCCL_EXPORT void resetPoolPeaks(int ordinal);

/// How many devices an emulated accelerator shows: SYMCCL_NPU_DEVICES, else as many as this host has ranks
/// (LOCAL_WORLD_SIZE), at least 8 and at most 64.
SYMCCL_EXPORT Result<int> emulatedDevices();

}  // namespace symccl
