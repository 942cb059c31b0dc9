#include "memory/offset_allocator.hpp"

#include <algorithm>

namespace symccl {

OffsetAllocator::OffsetAllocator(std::size_t size, std::size_t granule) : granule_(granule) {
  const std::size_t whole = size / granule * granule;
  if (whole > 0) free_.emplace(0, whole);
}

std::optional<std::size_t> OffsetAllocator::take(std::size_t bytes) {
  if (bytes == 0 || bytes > largestFree()) return std::nullopt;
  const std::size_t wanted = (bytes + granule_ - 1) / granule_ * granule_;  // no more than the largest: no overflow
  const auto range = std::find_if(free_.begin(), free_.end(), [&](const auto& r) { return r.second >= wanted; });
  const auto [offset, size] = *range;
  free_.erase(range);
  if (size > wanted) free_.emplace(offset + wanted, size - wanted);
  taken_.emplace(offset, wanted);
  return offset;
}

std::size_t OffsetAllocator::give(std::size_t offset) {
  const auto range = taken_.find(offset);
  if (range == taken_.end()) return 0;
  const std::size_t bytes = range->second;
  taken_.erase(range);

  auto merged = free_.emplace(offset, bytes).first;
  if (const auto next = std::next(merged); next != free_.end() && next->first == offset + bytes) {
    merged->second += next->second;
    free_.erase(next);
  }
  if (merged != free_.begin()) {
    const auto previous = std::prev(merged);
    if (previous->first + previous->second == offset) {
      previous->second += merged->second;
      free_.erase(merged);
    }
  }
  return bytes;
}

std::size_t OffsetAllocator::sizeAt(std::size_t offset) const {
  const auto range = taken_.find(offset);
  return range == taken_.end() ? 0 : range->second;
}

std::size_t OffsetAllocator::largestFree() const {
  std::size_t largest = 0;
  for (const auto& [offset, bytes] : free_) largest = std::max(largest, bytes);
  return largest;
}

std::size_t OffsetAllocator::free() const {
  std::size_t sum = 0;
  for (const auto& [offset, bytes] : free_) sum += bytes;
  return sum;
}

}  // namespace symccl
