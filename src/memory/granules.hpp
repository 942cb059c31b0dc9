// The unit in which a heap is handed out, and which units a range touches.
#pragma once

#include <cstddef>

namespace symccl {

/// Segments are handed out in granules of this size.
inline constexpr std::size_t kGranule = std::size_t{2} << 20;

/// `bytes` rounded up to whole units; `bytes` must leave room for that.
constexpr std::size_t roundUp(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// The units that [offset, offset + bytes) touches; none if it is empty.
struct UnitRange {
  std::size_t first;
  std::size_t count;
};
constexpr UnitRange unitsOf(std::size_t offset, std::size_t bytes, std::size_t unit) {
  if (bytes == 0) return {offset / unit, 0};
  return {offset / unit, (offset + bytes - 1) / unit - offset / unit + 1};
}

}  // namespace symccl
