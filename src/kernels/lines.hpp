// Cache lines and streaming stores: what copies and reductions share.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/table.hpp"

namespace symccl {

// Below this, aligning, prefetching and streaming cost more than they bring.
inline constexpr std::size_t kSmall = 1024;
// What stays in the first-level cache on its way to destinations that do not line up.
inline constexpr std::size_t kBlock = 4096;

/// Bytes from `address` to the next line.
inline std::size_t bytesToLine(const void* address) { return -reinterpret_cast<std::uintptr_t>(address) % kLine; }

/// Whether all addresses lie at the same place in their lines.
inline bool linedUp(std::span<void* const> addresses) {
  const std::size_t first = bytesToLine(addresses[0]);
  return std::ranges::all_of(addresses, [&](const void* address) { return bytesToLine(address) == first; });
}

/// Orders the streaming stores before it with whatever follows; nothing else does.
inline void fenceStreams() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

/// Copies past the caches to every destination but `source` itself, without a fence. The destinations are lined up.
void streamCopy(const KernelTable& kernels, std::span<void* const> destinations, const void* source, std::size_t bytes);

}  // namespace symccl
