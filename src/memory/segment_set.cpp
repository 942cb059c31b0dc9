#include "memory/segment_set.hpp"

#include <algorithm>

#include "memory/granules.hpp"

namespace symccl {
namespace {

UnitRange granulesWithin(std::size_t heapBytes, std::size_t offset, std::size_t bytes) {
  if (offset >= heapBytes) return {0, 0};
  return unitsOf(offset, std::min(bytes, heapBytes - offset), kGranule);
}

}  // namespace

SegmentSet::SegmentSet(std::size_t heapBytes) : heapBytes_(heapBytes), bits_((heapBytes + kGranule - 1) / kGranule) {}

void SegmentSet::add(std::size_t offset, std::size_t bytes) {
  const UnitRange range = granulesWithin(heapBytes_, offset, bytes);
  bits_.set(range.first, range.count);
}

void SegmentSet::remove(std::size_t offset, std::size_t bytes) {
  const UnitRange range = granulesWithin(heapBytes_, offset, bytes);
  bits_.clear(range.first, range.count);
}

bool SegmentSet::contains(std::size_t offset, std::size_t bytes) const {
  if (bytes == 0) return true;
  if (offset >= heapBytes_ || bytes > heapBytes_ - offset) return false;
  const UnitRange range = unitsOf(offset, bytes, kGranule);
  return bits_.all(range.first, range.count);
}

std::size_t SegmentSet::granules() const { return bits_.count(); }

}  // namespace symccl
