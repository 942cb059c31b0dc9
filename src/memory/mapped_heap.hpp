// Another process's heap, mapped here.
#pragma once

#include <cstddef>
#include <memory>

#include "base/file_descriptor.hpp"
#include "base/host.hpp"
#include "memory/atomic_bits.hpp"
#include "symccl/result.hpp"

namespace symccl {

/// One peer's heap. Never unmapped while the process lives (addresses in flight stay valid). Thread-safe.
class MappedHeap {
 public:
  /// Maps the descriptor of `bytes` at the window of `ordinal` if that range is free, else elsewhere. Checks the seals
  /// and the size: Code::corrupt if the descriptor is not a sealed memfd of that size. Code::memory if the address
  /// space has no room for it.
  static Result<std::unique_ptr<MappedHeap>> map(FileDescriptor memory, const Uuid& id, int ordinal, std::size_t bytes);

  const Uuid& id() const { return id_; }
  int ordinal() const { return ordinal_; }
  std::byte* base() const { return base_; }
  std::size_t bytes() const { return bytes_; }
  bool symmetric() const;

  /// Populates the page tables for the granules of a registered range that were not seen before: one system call for a
  /// new segment instead of a fault for each page; a few loads afterwards. Only for ranges whose pages are reserved:
  /// pages that do not exist would be made. Parts outside the heap are ignored.
  void populate(std::size_t offset, std::size_t bytes);

 private:
  MappedHeap(const Uuid& id, int ordinal, std::byte* base, std::size_t bytes);
  const Uuid id_;
  const int ordinal_;
  std::byte* const base_;
  const std::size_t bytes_;
  AtomicBits seen_;  // per granule
};

}  // namespace symccl
