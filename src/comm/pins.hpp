// The segments that an operation keeps from being reused while it runs.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "memory/heap.hpp"

namespace symccl {

/// Unpins what it has pinned when it goes. Allocates only for operations that do not fit a slot.
class Pins {
 public:
  explicit Pins(Heap& heap) : heap_(&heap) {}
  Pins(Pins&& other) noexcept : heap_(other.heap_), ranges_(std::exchange(other.ranges_, {})) {}
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;
  Pins& operator=(Pins&&) = delete;
  ~Pins() {
    for (const auto& [offset, bytes] : ranges_) heap_->unpin(offset, bytes);
  }

  void pin(std::size_t offset, std::size_t bytes) {
    heap_->pin(offset, bytes);
    ranges_.emplace_back(offset, bytes);
  }
  /// Unpins the newest.
  void undo() {
    heap_->unpin(ranges_.back().first, ranges_.back().second);
    ranges_.pop_back();
  }
  /// Leaves everything pinned for ever: somebody may still be at the buffers.
  void keep() { ranges_.clear(); }

 private:
  Heap* heap_;
  std::vector<std::pair<std::size_t, std::size_t>> ranges_;
};

}  // namespace symccl
