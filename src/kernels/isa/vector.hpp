// Vectors of this instruction set: the file is compiled once for each, in a namespace of its own.
//
// Nothing here may leave a function that another file could share: the linker keeps one copy of an inline function, and
// that copy might need instructions which the processor lacks. So no standard templates with code in this folder.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>

#include "kernels/table.hpp"

#define SYMCCL_INLINE [[gnu::always_inline]] inline

namespace symccl::SYMCCL_ISA_NAMESPACE {

inline constexpr std::size_t kVectorBytes = SYMCCL_VECTOR_BYTES;

// How far ahead lines are asked for, in bytes. Measured: nearer is late, further gains nothing.
inline constexpr std::size_t kReadAhead = 2048;
inline constexpr std::size_t kOwnAhead = 512;

template <class T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(SYMCCL_VECTOR_BYTES)));
};
template <class T>
using Vector = typename VectorOf<T>::Type;
using Bytes = Vector<std::uint8_t>;
/// The elements' type, of floating vectors.
template <class V>
using ScalarOf = decltype(V{}[0] + V{}[0]);

/// The same bits as another vector type.
template <class To, class From>
SYMCCL_INLINE To as(From from) {
  return (To)from;
}

template <class V>
SYMCCL_INLINE V load(const char* from) {
  V vector;
  __builtin_memcpy(&vector, from, sizeof vector);
  return vector;
}

/// The first `bytes` bytes at `from`, fewer than a vector, then zeros.
SYMCCL_INLINE Bytes loadPart(const char* from, std::size_t bytes) {
#if SYMCCL_VECTOR_BYTES == 64
  // Saves the detour through memory; but a processor takes a microsecond where the next page cannot be read.
  constexpr std::size_t kPage = 4096;
  if (reinterpret_cast<std::uintptr_t>(from) % kPage <= kPage - kVectorBytes) {
    return as<Bytes>(_mm512_maskz_loadu_epi8((__mmask64{1} << bytes) - 1, from));
  }
#endif
  Bytes part{};
  __builtin_memcpy(&part, from, bytes);
  return part;
}

SYMCCL_INLINE void store(char* to, Bytes vector) { __builtin_memcpy(to, &vector, sizeof vector); }

/// Stores past the caches; `to` is aligned to the vector. The caller fences.
SYMCCL_INLINE void stream(char* to, Bytes vector) {
#if SYMCCL_VECTOR_BYTES == 64
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), as<__m512i>(vector));
#elif SYMCCL_VECTOR_BYTES == 32
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), as<__m256i>(vector));
#elif defined(__SSE2__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), as<__m128i>(vector));
#else
  store(to, vector);
#endif
}

/// Asks for the lines of [at, at + bytes) to be read, or to be owned for writing. May point past the end of a range.
template <bool kForWriting>
SYMCCL_INLINE void prefetch(const char* at, std::size_t bytes) {
  for (std::size_t line = 0; line < bytes; line += kLine) __builtin_prefetch(at + line, kForWriting, 3);
}

}  // namespace symccl::SYMCCL_ISA_NAMESPACE
