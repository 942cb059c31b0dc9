// How a copy is cut: whole lines by the vector loop, what is left at both ends by memcpy.

#include <cstring>

#include "kernels/dispatch.hpp"
#include "kernels/lines.hpp"

namespace symccl {
namespace {

void copyPart(std::span<void* const> destinations, const void* source, std::size_t begin, std::size_t end) {
  for (void* destination : destinations) {
    if (destination == source) continue;
    std::memcpy(static_cast<char*>(destination) + begin, static_cast<const char*>(source) + begin, end - begin);
  }
}

/// One destination after the other, block by block: the source comes from memory once.
void streamBlocks(const KernelTable& kernels, std::span<void* const> destinations, const void* source,
                  std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kBlock) {
    for (void* destination : destinations) {
      if (destination == source) continue;
      void* const to = static_cast<char*>(destination) + at;
      copyLines(kernels, {&to, 1}, static_cast<const char*>(source) + at, std::min(kBlock, bytes - at), true);
    }
  }
}

}  // namespace

void copyLines(const KernelTable& kernels, std::span<void* const> destinations, const void* source, std::size_t bytes,
               bool streaming) {
  if (bytes < kSmall) return copyPart(destinations, source, 0, bytes);
  const std::size_t begin = bytesToLine(destinations[0]);
  const std::size_t end = bytes - (bytes - begin) % kLine;
  copyPart(destinations, source, 0, begin);
  kernels.copy({.destinations = destinations.data(),
                .destinationCount = destinations.size(),
                .source = source,
                .begin = begin,
                .end = end,
                .streaming = streaming});
  copyPart(destinations, source, end, bytes);
}

void copyWith(const KernelTable& kernels, std::span<void* const> destinations, const void* source, std::size_t bytes,
              Stores stores) {
  if (bytes == 0 || destinations.empty()) return;
  const bool streaming = stores == Stores::streaming;
  if (streaming && !linedUp(destinations)) {
    streamBlocks(kernels, destinations, source, bytes);
  } else {
    copyLines(kernels, destinations, source, bytes, streaming);
  }
  if (streaming) fenceStreams();
}

}  // namespace symccl
