#include "symccl_bench/stream_copy.hpp"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace symccl::bench {

namespace {

constexpr std::size_t kLine = 64;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) void streamLines512(std::byte* destination, const std::byte* source,
                                                       std::size_t bytes, std::size_t parts) {
  const std::size_t stride = bytes / parts;
  for (std::size_t at = 0; at < stride; at += kLine) {
    for (std::size_t place = at; place < bytes; place += stride) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(destination + place), _mm512_loadu_si512(source + place));
    }
  }
  _mm_sfence();
}

void streamLines(std::byte* destination, const std::byte* source, std::size_t bytes, std::size_t parts) {
  const std::size_t stride = bytes / parts;
  for (std::size_t at = 0; at < stride; at += kLine) {
    for (std::size_t place = at; place < bytes; place += stride) {
      const auto* from = reinterpret_cast<const __m128i*>(source + place);
      auto* to = reinterpret_cast<__m128i*>(destination + place);
      for (int i = 0; i < 4; ++i) _mm_stream_si128(to + i, _mm_loadu_si128(from + i));
    }
  }
  _mm_sfence();
}
#else
void streamLines(std::byte* destination, const std::byte* source, std::size_t bytes, std::size_t) {
  std::memcpy(destination, source, bytes);
}
#endif

}  // namespace

void streamCopy(std::byte* destination, const std::byte* source, std::size_t bytes, int streams) {
  const std::size_t parts = static_cast<std::size_t>(streams);
  const std::size_t whole = bytes / (kLine * parts) * (kLine * parts);
  if (whole > 0) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
      streamLines512(destination, source, whole, parts);
    } else {
      streamLines(destination, source, whole, parts);
    }
#else
    streamLines(destination, source, whole, parts);
#endif
  }
  std::memcpy(destination + whole, source + whole, bytes - whole);
}

}  // namespace symccl::bench
