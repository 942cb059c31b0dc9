// The loop of every reduction.
#pragma once

#include "kernels/isa/operation.hpp"

namespace symccl::SYMCCL_ISA_NAMESPACE {

// Enough independent vectors to hide the latency of an addition.
inline constexpr int kStepVectors = 4;
inline constexpr std::size_t kStepBytes = kStepVectors * kVectorBytes;
static_assert(kStepBytes <= kMaximalStep);

/// Writes whole vectors, as the loop reads them: a load that spans several smaller stores waits for the cache.
inline void pad(char* step, const char* from, std::size_t bytes) {
  const std::size_t whole = bytes - bytes % kVectorBytes;
  std::size_t at = 0;
  for (; at < whole; at += kVectorBytes) store(step + at, load<Bytes>(from + at));
  store(step + at, loadPart(from + at, bytes - at));
  for (at += kVectorBytes; at < kStepBytes; at += kVectorBytes) store(step + at, Bytes{});
}

/// A step of one source, or of the result, in wide vectors.
template <class L>
struct WideStep {
  static constexpr int kCount = kStepVectors * L::kWides;
  typename L::Wide wide[kCount];
};

template <class L, class Op>
SYMCCL_INLINE WideStep<L> readStep(const ReduceJob& job, std::size_t source, const char* from) {
  WideStep<L> step;
#pragma GCC unroll 4
  for (int v = 0; v < kStepVectors; ++v) L::unpack(from + v * kVectorBytes, step.wide + v * L::kWides);
#pragma GCC unroll 8
  for (auto& wide : step.wide) wide = Op::template prepare<L>(wide, job, source);
  return step;
}

struct PackedStep {
  Bytes vectors[kStepVectors];
};

template <class L, class Op>
SYMCCL_INLINE PackedStep finishStep(const ReduceJob& job, WideStep<L> step) {
#pragma GCC unroll 8
  for (auto& wide : step.wide) {
    wide = Op::finish(wide, job);
    if constexpr (L::kFloating) wide = withOneNan(wide);
  }
  PackedStep packed;
#pragma GCC unroll 4
  for (int v = 0; v < kStepVectors; ++v) packed.vectors[v] = L::pack(step.wide + v * L::kWides);
  return packed;
}

SYMCCL_INLINE void writeStep(char* to, const PackedStep& step, bool streaming) {
  if (streaming) {
#pragma GCC unroll 4
    for (int v = 0; v < kStepVectors; ++v) stream(to + v * kVectorBytes, step.vectors[v]);
  } else {
#pragma GCC unroll 4
    for (int v = 0; v < kStepVectors; ++v) store(to + v * kVectorBytes, step.vectors[v]);
  }
}

/// Lane<T> and Op decide what is computed. Every load of a step comes before its first store: a destination may be a
/// source.
template <class T, class Op>
void reduce(const ReduceJob& job) {
  using L = Lane<T>;
  // Copies, for the stores might change the job for all that the compiler knows.
  const std::size_t sourceCount = job.sourceCount, destinationCount = job.destinationCount, bytes = job.bytes;
  const std::size_t sourceOffset = job.sourceOffset, destinationOffset = job.destinationOffset;
  const void* const* const sources = job.sources;
  void* const* const destinations = job.destinations;
  const bool streaming = job.streaming, prefetchSources = job.prefetchSources, ownDestinations = job.ownDestinations;

  for (std::size_t at = 0; at < bytes; at += kStepBytes) {
    const auto read = [&](std::size_t source) __attribute__((always_inline)) {
      const char* from = static_cast<const char*>(sources[source]) + sourceOffset + at;
      if (prefetchSources) prefetch<false>(from + kReadAhead, kStepBytes);
      return readStep<L, Op>(job, source, from);
    };
    WideStep<L> result = read(0);
    for (std::size_t source = 1; source < sourceCount; ++source) {
      const WideStep<L> next = read(source);
#pragma GCC unroll 8
      for (int w = 0; w < WideStep<L>::kCount; ++w) result.wide[w] = Op::combine(result.wide[w], next.wide[w]);
    }
    const PackedStep packed = finishStep<L, Op>(job, result);
    for (std::size_t destination = 0; destination < destinationCount; ++destination) {
      char* to = static_cast<char*>(destinations[destination]) + destinationOffset + at;
      if (ownDestinations) prefetch<true>(to + kOwnAhead, kStepBytes);
      writeStep(to, packed, streaming);
    }
  }
}

}  // namespace symccl::SYMCCL_ISA_NAMESPACE
