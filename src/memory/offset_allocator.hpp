// First fit by offset, in granules, coalescing, deterministic.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace symccl {

/// Hands out ranges of [0, size). Equal call sequences give equal offsets. Not thread-safe.
class OffsetAllocator {
 public:
  OffsetAllocator(std::size_t size, std::size_t granule);

  /// The lowest free range of `bytes` (rounded up to granules), or nothing.
  std::optional<std::size_t> take(std::size_t bytes);
  /// Gives a range back that take() returned; its bytes (rounded up), or 0 if there is no such range.
  std::size_t give(std::size_t offset);
  /// Bytes of the range that was taken at `offset`, or 0.
  std::size_t sizeAt(std::size_t offset) const;
  std::size_t largestFree() const;
  std::size_t free() const;

 private:
  const std::size_t granule_;
  std::map<std::size_t, std::size_t> free_;   // offset -> bytes
  std::map<std::size_t, std::size_t> taken_;  // offset -> bytes
};

}  // namespace symccl
