// How the elements of each type are held while they are reduced.
#pragma once

#include "kernels/isa/vector.hpp"

#if defined(__FAST_MATH__)
#error "Results must have the same bits everywhere: build without -ffast-math"
#endif

namespace symccl::SYMCCL_ISA_NAMESPACE {

// Element types that C++ lacks, by their bits.
struct Boolean {
  std::uint8_t bits;
};
struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

using Floats = Vector<float>;
using Words = Vector<std::uint32_t>;

/// NaN as one pattern: which of two NaNs an addition returns depends on how the compiler orders its operands.
template <class W>
SYMCCL_INLINE W withOneNan(W x) {
  return x != x ? W{} + static_cast<ScalarOf<W>>(__builtin_nanf("")) : x;
}

/// Lane<T>: one vector of T in memory, and the `kWides` vectors of type Wide in which its elements are reduced. The
/// order of the elements in them is Lane's own affair.
template <class T>
struct Lane {
  using Wide = Vector<T>;
  static constexpr int kWides = 1;
  static constexpr bool kFloating = T(0.5) != T(0);

  SYMCCL_INLINE static void unpack(const char* from, Wide* wide) { wide[0] = load<Wide>(from); }
  SYMCCL_INLINE static Bytes pack(const Wide* wide) { return as<Bytes>(wide[0]); }
  /// Rounds to the precision of T.
  SYMCCL_INLINE static Wide round(Wide x) { return x; }
};

/// Any byte but 0 is true; true is 1.
template <>
struct Lane<Boolean> {
  using Wide = Bytes;
  static constexpr int kWides = 1;
  static constexpr bool kFloating = false;

  SYMCCL_INLINE static void unpack(const char* from, Wide* wide) { wide[0] = as<Bytes>(load<Bytes>(from) != 0) & 1; }
  SYMCCL_INLINE static Bytes pack(const Wide* wide) { return wide[0]; }
};

/// The upper half of a float32. Even and odd elements part without a shuffle.
template <>
struct Lane<BFloat16> {
  using Wide = Floats;
  static constexpr int kWides = 2;
  static constexpr bool kFloating = true;
  static constexpr std::uint32_t kUpper = 0xffff0000;

  SYMCCL_INLINE static void unpack(const char* from, Wide* wide) {
    const Words pairs = load<Words>(from);
    wide[0] = as<Floats>(pairs << 16);
    wide[1] = as<Floats>(pairs & kUpper);
  }
  SYMCCL_INLINE static Bytes pack(const Wide* wide) {
    return as<Bytes>((rounded(wide[0]) >> 16) | (rounded(wide[1]) & kUpper));
  }
  SYMCCL_INLINE static Wide round(Wide x) { return as<Floats>(rounded(withOneNan(x)) & kUpper); }

 private:
  /// To nearest, ties to even, in the upper half. Integer arithmetic keeps denormals, which VCVTNEPS2BF16 flushes, but
  /// would carry the largest NaNs over into zero: `x` holds the one NaN only.
  SYMCCL_INLINE static Words rounded(Floats x) {
    const Words bits = as<Words>(x);
    return bits + 0x7fff + ((bits >> 16) & 1);
  }
};

#if SYMCCL_VECTOR_BYTES > 16

/// Converted by F16C or AVX-512: first and second half of the vector.
template <>
struct Lane<Float16> {
  using Wide = Floats;
  static constexpr int kWides = 2;
  static constexpr bool kFloating = true;
#if SYMCCL_VECTOR_BYTES == 64
  static constexpr __mmask16 kAll = 0xffff;  // g++ 12 warns about its own intrinsics without a mask
  using Half = __m256i;
  SYMCCL_INLINE static Bytes join(Half low, Half high) {
    return as<Bytes>(__builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7));
  }
  SYMCCL_INLINE static Floats widen(Half halves) { return as<Floats>(_mm512_maskz_cvtph_ps(kAll, halves)); }
  SYMCCL_INLINE static Half narrow(Floats x) {
    return _mm512_maskz_cvtps_ph(kAll, as<__m512>(x), _MM_FROUND_TO_NEAREST_INT);
  }
#else
  using Half = __m128i;
  SYMCCL_INLINE static Bytes join(Half low, Half high) {
    return as<Bytes>(__builtin_shufflevector(low, high, 0, 1, 2, 3));
  }
  SYMCCL_INLINE static Floats widen(Half halves) { return as<Floats>(_mm256_cvtph_ps(halves)); }
  SYMCCL_INLINE static Half narrow(Floats x) { return _mm256_cvtps_ph(as<__m256>(x), _MM_FROUND_TO_NEAREST_INT); }
#endif

  SYMCCL_INLINE static void unpack(const char* from, Wide* wide) {
    wide[0] = widen(load<Half>(from));
    wide[1] = widen(load<Half>(from + sizeof(Half)));
  }
  SYMCCL_INLINE static Bytes pack(const Wide* wide) { return join(narrow(wide[0]), narrow(wide[1])); }
  SYMCCL_INLINE static Wide round(Wide x) { return widen(narrow(x)); }
};

#else

/// Converted by integer arithmetic; even and odd elements as with bfloat16.
template <>
struct Lane<Float16> {
  using Wide = Floats;
  static constexpr int kWides = 2;
  static constexpr bool kFloating = true;

  SYMCCL_INLINE static void unpack(const char* from, Wide* wide) {
    const Words pairs = load<Words>(from);
    wide[0] = widen(pairs & 0xffff);
    wide[1] = widen(pairs >> 16);
  }
  SYMCCL_INLINE static Bytes pack(const Wide* wide) { return as<Bytes>(narrow(wide[0]) | (narrow(wide[1]) << 16)); }
  SYMCCL_INLINE static Wide round(Wide x) { return widen(narrow(x)); }

 private:
  using Integers = Vector<std::int32_t>;  // magnitudes fit, and signed comparisons are what SSE2 has
  static constexpr std::int32_t kInfinity = 0x7f800000;

  /// Exponent and fraction are moved into place; a multiplication by 2^112 rebiases the exponent, also of denormals.
  SYMCCL_INLINE static Floats widen(Words half) {
    const Integers magnitude = as<Integers>((half & 0x7fff) << 13);
    const Integers finite = as<Integers>(as<Floats>(magnitude) * 0x1p112f);
    const Integers value = magnitude < 0x0f800000 ? finite : magnitude | kInfinity;
    return as<Floats>(as<Words>(value) | ((half & 0x8000) << 16));
  }

  /// To nearest, ties to even.
  SYMCCL_INLINE static Words narrow(Floats x) {
    const Words bits = as<Words>(x);
    const Integers magnitude = as<Integers>(bits & 0x7fffffff);
    // Below 2^-14: adding 0.5 moves the last bit of a float16 denormal to the last bit of the sum, which is rounded.
    const Integers denormal = as<Integers>(as<Floats>(magnitude) + 0.5f) - 0x3f000000;
    const Integers normal = (magnitude - (112 << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    const Integers finite = magnitude < (113 << 23) ? denormal : normal;
    const Integers beyond = magnitude > kInfinity ? Integers{} + 0x7e00 : Integers{} + 0x7c00;
    return as<Words>(magnitude < (143 << 23) ? finite : beyond) | ((bits >> 16) & 0x8000);
  }
};

#endif

}  // namespace symccl::SYMCCL_ISA_NAMESPACE
