// Which granules of a heap are registered with a communicator: one bit each.
#pragma once

#include <cstddef>

#include "memory/atomic_bits.hpp"

namespace symccl {

/// Lock-free bits; writers are the registration hooks, readers the operations being issued. Sequentially consistent
/// together with Heap::pin(): who pins and then finds the range here knows that the segment stays until unpin(), if who
/// removes a range does so before Heap::release().
class SegmentSet {
 public:
  explicit SegmentSet(std::size_t heapBytes);
  /// Ranges that leave the heap are cut off at its end.
  void add(std::size_t offset, std::size_t bytes);
  void remove(std::size_t offset, std::size_t bytes);
  /// Whether every granule that the range touches is in the set. An empty range is; one that leaves the heap is not.
  bool contains(std::size_t offset, std::size_t bytes) const;
  std::size_t granules() const;  ///< in the set

 private:
  const std::size_t heapBytes_;
  AtomicBits bits_;
};

}  // namespace symccl
