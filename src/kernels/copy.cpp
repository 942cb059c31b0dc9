// Copies: ordinary ones by memcpy, streaming ones by whole lines. (memcpy streams too, but from a size that it derives
// from the last-level cache which the processor reports, and which no process has to itself.)

#include <cstring>

#include "kernels/dispatch.hpp"
#include "kernels/lines.hpp"

namespace symccl {
namespace {

/// The source of one block stays in the second-level cache while the destinations are served one after the other.
constexpr std::size_t kOrdinaryBlock = 32 * 1024;

void copyPart(std::span<void* const> destinations, const void* source, std::size_t begin, std::size_t end) {
  for (void* destination : destinations) {
    if (destination == source) continue;
    std::memcpy(static_cast<char*>(destination) + begin, static_cast<const char*>(source) + begin, end - begin);
  }
}

void copyOrdinary(std::span<void* const> destinations, const void* source, std::size_t bytes) {
  const std::size_t block = destinations.size() == 1 ? bytes : kOrdinaryBlock;
  for (std::size_t at = 0; at < bytes; at += block) copyPart(destinations, source, at, std::min(bytes, at + block));
}

/// Destinations that do not line up are served one after the other, from the first-level cache.
void streamBlocks(const KernelTable& kernels, std::span<void* const> destinations, const void* source,
                  std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kBlock) {
    for (void* destination : destinations) {
      if (destination == source) continue;
      void* const to = static_cast<char*>(destination) + at;
      streamCopy(kernels, {&to, 1}, static_cast<const char*>(source) + at, std::min(kBlock, bytes - at));
    }
  }
}

}  // namespace

void streamCopy(const KernelTable& kernels, std::span<void* const> destinations, const void* source,
                std::size_t bytes) {
  if (bytes < kSmall) return copyPart(destinations, source, 0, bytes);
  const std::size_t begin = bytesToLine(destinations[0]);
  const std::size_t end = bytes - (bytes - begin) % kLine;
  copyPart(destinations, source, 0, begin);
  kernels.streamLines({.destinations = destinations.data(),
                       .destinationCount = destinations.size(),
                       .source = source,
                       .begin = begin,
                       .end = end});
  copyPart(destinations, source, end, bytes);
}

void copyWith(const KernelTable& kernels, std::span<void* const> destinations, const void* source, std::size_t bytes,
              Stores stores) {
  if (bytes == 0 || destinations.empty()) return;
  if (stores == Stores::ordinary) return copyOrdinary(destinations, source, bytes);
  if (linedUp(destinations)) {
    streamCopy(kernels, destinations, source, bytes);
  } else {
    streamBlocks(kernels, destinations, source, bytes);
  }
  fenceStreams();
}

}  // namespace symccl
