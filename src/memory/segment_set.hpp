// Which granules of a heap are registered with a communicator: one bit each.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace symccl {

/// Lock-free bits; writers are the registration hooks, readers the operations being issued.
class SegmentSet {
 public:
  explicit SegmentSet(std::size_t heapBytes);
  void add(std::size_t offset, std::size_t bytes);
  void remove(std::size_t offset, std::size_t bytes);
  /// Whether every granule that the range touches is in the set. An empty range is.
  bool contains(std::size_t offset, std::size_t bytes) const;
  std::size_t granules() const;  ///< in the set

 private:
  std::size_t words_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> bits_;
};

}  // namespace symccl
