// The loop of every copy.
#pragma once

#include "kernels/isa/vector.hpp"
#include "kernels/table.hpp"

namespace symccl::SYMCCL_ISA_NAMESPACE {

// Large streaming copies advance in four places at once: one stream leaves a core waiting for memory.
inline constexpr std::size_t kCopyLines = 4;
inline constexpr std::size_t kStreamsFrom = 256 * 1024;

struct Line {
  Bytes vectors[kLine / kVectorBytes];
};

SYMCCL_INLINE Line loadLine(const char* from) {
  Line line;
#pragma GCC unroll 4
  for (std::size_t v = 0; v < kLine / kVectorBytes; ++v) line.vectors[v] = load<Bytes>(from + v * kVectorBytes);
  return line;
}

SYMCCL_INLINE void storeLine(char* to, const Line& line) {
#pragma GCC unroll 4
  for (std::size_t v = 0; v < kLine / kVectorBytes; ++v) store(to + v * kVectorBytes, line.vectors[v]);
}

SYMCCL_INLINE void streamLine(char* to, const Line& line) {
#pragma GCC unroll 4
  for (std::size_t v = 0; v < kLine / kVectorBytes; ++v) stream(to + v * kVectorBytes, line.vectors[v]);
}

/// Steps from `begin` to `end` by `advance`, each copying kLines lines that lie `distance` apart.
template <std::size_t kLines>
SYMCCL_INLINE void copySteps(const CopyJob& job, std::size_t begin, std::size_t end, std::size_t advance,
                             std::size_t distance) {
  const char* source = static_cast<const char*>(job.source);
  for (std::size_t at = begin; at < end; at += advance) {
    Line lines[kLines];
#pragma GCC unroll 4
    for (std::size_t l = 0; l < kLines; ++l) lines[l] = loadLine(source + at + l * distance);
    for (std::size_t destination = 0; destination < job.destinationCount; ++destination) {
      char* to = static_cast<char*>(job.destinations[destination]);
      if (to == source) continue;
      to += at;
      if (job.streaming) {
#pragma GCC unroll 4
        for (std::size_t l = 0; l < kLines; ++l) streamLine(to + l * distance, lines[l]);
      } else {
        prefetch<true>(to + kOwnAhead, kLines * kLine);
#pragma GCC unroll 4
        for (std::size_t l = 0; l < kLines; ++l) storeLine(to + l * distance, lines[l]);
      }
    }
  }
}

inline void copy(const CopyJob& job) {
  const std::size_t bytes = job.end - job.begin;
  const std::size_t run = bytes / (kCopyLines * kLine) * kLine;
  const std::size_t whole = job.begin + run * kCopyLines;
  if (job.streaming && bytes >= kStreamsFrom) {
    copySteps<kCopyLines>(job, job.begin, job.begin + run, kLine, run);
  } else {
    copySteps<kCopyLines>(job, job.begin, whole, kCopyLines * kLine, kLine);
  }
  copySteps<1>(job, whole, job.end, kLine, kLine);
}

}  // namespace symccl::SYMCCL_ISA_NAMESPACE
