// The loop of streaming copies.
#pragma once

#include "kernels/isa/vector.hpp"

namespace symccl::SYMCCL_ISA_NAMESPACE {

// Large copies advance in four places at once: a single stream leaves a core waiting for memory.
inline constexpr std::size_t kPlaces = 4;
inline constexpr std::size_t kPlacesFrom = 256 * 1024;

struct Line {
  Bytes vectors[kLine / kVectorBytes];
};

SYMCCL_INLINE Line loadLine(const char* from) {
  Line line;
#pragma GCC unroll 4
  for (std::size_t v = 0; v < kLine / kVectorBytes; ++v) line.vectors[v] = load<Bytes>(from + v * kVectorBytes);
  return line;
}

SYMCCL_INLINE void streamLine(char* to, const Line& line) {
#pragma GCC unroll 4
  for (std::size_t v = 0; v < kLine / kVectorBytes; ++v) stream(to + v * kVectorBytes, line.vectors[v]);
}

/// Steps from `begin` to `end` by `advance`, each streaming kLines lines that lie `distance` apart.
template <std::size_t kLines>
SYMCCL_INLINE void streamSteps(const StreamJob& job, std::size_t begin, std::size_t end, std::size_t advance,
                               std::size_t distance) {
  const char* const source = static_cast<const char*>(job.source);
  for (std::size_t at = begin; at < end; at += advance) {
    Line lines[kLines];
#pragma GCC unroll 4
    for (std::size_t l = 0; l < kLines; ++l) lines[l] = loadLine(source + at + l * distance);
    for (std::size_t destination = 0; destination < job.destinationCount; ++destination) {
      char* const to = static_cast<char*>(job.destinations[destination]);
      if (to == source) continue;
#pragma GCC unroll 4
      for (std::size_t l = 0; l < kLines; ++l) streamLine(to + at + l * distance, lines[l]);
    }
  }
}

inline void streamLines(const StreamJob& job) {
  const std::size_t bytes = job.end - job.begin;
  const std::size_t quarter = bytes / (kPlaces * kLine) * kLine;
  const std::size_t whole = job.begin + kPlaces * quarter;
  if (bytes >= kPlacesFrom) {
    streamSteps<kPlaces>(job, job.begin, job.begin + quarter, kLine, quarter);
  } else {
    streamSteps<kPlaces>(job, job.begin, whole, kPlaces * kLine, kLine);
  }
  streamSteps<1>(job, whole, job.end, kLine, kLine);
}

}  // namespace symccl::SYMCCL_ISA_NAMESPACE
