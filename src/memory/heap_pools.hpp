// All pools of one heap: one lock, and one table that leads from an address to its pool.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "memory/block_cache.hpp"
#include "memory/segment_listener.hpp"
#include "symccl/memory.hpp"
#include "symccl/result.hpp"

namespace symccl {

/// The books of one pool; HeapPools guards it. Outlives its Pool while blocks are in use.
struct PoolState {
  std::weak_ptr<Pool> pool;  ///< written once, before any block is handed out
  bool closed = false;
  BlockCache cache;
  std::vector<SegmentListener*> listeners;
};

/// Thread-safe. Pages are reserved and given back outside the lock, so that a free never waits for them. In a forked
/// child nothing here takes the parent's lock, which may be held for ever.
class HeapPools {
 public:
  explicit HeapPools(Heap& heap);

  PoolState& open();
  void setPool(PoolState& state, std::weak_ptr<Pool> pool);
  /// The Pool is gone: segments are unregistered, and go back as soon as no block in them is in use.
  void close(PoolState& state);

  Result<void*> allocate(PoolState& state, std::size_t bytes);
  /// Returns the block at `address`, whatever pool it belongs to. An address that is none is logged and ignored.
  void free(void* address);
  /// The pool of the segment that holds `address`, or null: none, or a dead pool's.
  std::shared_ptr<Pool> poolOf(const void* address);

  std::size_t trim(PoolState& state);
  std::vector<SegmentReport> snapshot(PoolState& state);
  std::size_t bytesInUse(PoolState& state);
  std::size_t bytesReserved(PoolState& state);
  PoolTotals totals();
  void resetPeaks();

  bool attach(PoolState& state, SegmentListener& listener);
  bool detach(PoolState& state, SegmentListener& listener);

 private:
  using Segments = std::vector<BlockCache::Segment>;

  Result<BlockCache::Segment> reserveSegment(PoolState& state, std::size_t block);
  Segments collectIdle(PoolState& state);
  std::optional<std::size_t> take(PoolState& state, std::size_t block);
  std::size_t trimOthers(PoolState& state);
  std::size_t giveBack(const Segments& segments);
  void setOwner(BlockCache::Segment segment, PoolState* owner);
  void eraseIfDone(PoolState& state);

  Heap& heap_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<PoolState>> states_;           // guarded by mutex_
  PoolTotals totals_;                                        // guarded by mutex_
  const std::unique_ptr<std::atomic<PoolState*>[]> owners_;  // per granule; written under mutex_
};

}  // namespace symccl
