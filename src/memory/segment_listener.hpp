// How a communicator learns which segments a pool gains and loses.
#pragma once

#include <cstddef>
#include <memory>

#include "memory/heap.hpp"
#include "symccl/memory.hpp"

namespace symccl {

/// Called under the pool's lock, on whatever thread allocates or trims: plain bookkeeping only, and no call of any
/// pool.
class SegmentListener {
 public:
  virtual ~SegmentListener() = default;
  virtual void segmentAdded(Heap& heap, std::size_t offset, std::size_t bytes) = 0;
  /// Before the segment is released, so an operation that pins it and then still finds it registered may use it.
  virtual void segmentRemoved(Heap& heap, std::size_t offset, std::size_t bytes) = 0;
};

/// Reports the pool's present segments to `listener`, then each that comes or goes, until detached or the pool dies,
/// which reports all of them as removed. False if attached already, or if the pool is a forked child's parent's. The
/// pool keeps no ownership: detach before the listener dies.
bool attachListener(Pool& pool, SegmentListener& listener);
/// Reports the removal of the pool's segments and ends the reports. False if not attached.
bool detachListener(Pool& pool, SegmentListener& listener);

}  // namespace symccl
