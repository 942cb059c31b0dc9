// The reductions: prepare() takes an element of a source, combine() two prepared ones, finish() the last of them.
#pragma once

#include <type_traits>
#include <utility>

#include "kernels/isa/lane.hpp"
#include "kernels/table.hpp"

namespace symccl::SYMCCL_ISA_NAMESPACE {

struct Operation {
  template <class L, class W>
  SYMCCL_INLINE static W prepare(W x, const ReduceJob&, std::size_t) {
    return x;
  }
  template <class W>
  SYMCCL_INLINE static W finish(W x, const ReduceJob&) {
    return x;
  }
};

/// Integers come here as unsigned, where overflow wraps.
struct Sum : Operation {
  template <class W>
  SYMCCL_INLINE static W combine(W a, W b) {
    return a + b;
  }
};

struct Product : Operation {
  template <class W>
  SYMCCL_INLINE static W combine(W a, W b) {
    return a * b;
  }
};

struct And : Operation {
  template <class W>
  SYMCCL_INLINE static W combine(W a, W b) {
    return a & b;
  }
};

struct Or : Operation {
  template <class W>
  SYMCCL_INLINE static W combine(W a, W b) {
    return a | b;
  }
};

struct Xor : Operation {
  template <class W>
  SYMCCL_INLINE static W combine(W a, W b) {
    return a ^ b;
  }
};

struct IntegerMin : Operation {
  template <class W>
  SYMCCL_INLINE static W combine(W a, W b) {
    return a < b ? a : b;
  }
};

struct IntegerMax : Operation {
  template <class W>
  SYMCCL_INLINE static W combine(W a, W b) {
    return a > b ? a : b;
  }
};

/// The bits of whichever is not greater, those of both together where neither is greater: so -0 wins over +0, and NaN
/// with any other bits stays NaN.
struct FloatingMin : Operation {
  template <class W>
  SYMCCL_INLINE static W combine(W a, W b) {
    const W keptOfA = a > b ? W{} : a;
    const W keptOfB = a < b ? W{} : b;
    return as<W>(as<Bytes>(keptOfA) | as<Bytes>(keptOfB));
  }
};

/// max(a, b) = -min(-a, -b), in which +0 wins.
struct FloatingMax : FloatingMin {
  template <class L, class W>
  SYMCCL_INLINE static W prepare(W x, const ReduceJob&, std::size_t) {
    return -x;
  }
  template <class W>
  SYMCCL_INLINE static W finish(W x, const ReduceJob&) {
    return -x;
  }
};

struct FloatingAverage : Sum {
  template <class W>
  SYMCCL_INLINE static W finish(W x, const ReduceJob& job) {
    return x / static_cast<ScalarOf<W>>(job.sourceCount);
  }
};

/// Divides toward zero, as signed or unsigned T. No vector instruction divides integers, but the compiler makes vectors
/// of the loop where T fits a floating type well enough: a quotient that is not whole lies further from the next whole
/// number than the division's error.
template <class T>
struct IntegerAverage : Sum {
  using Quotient = std::conditional_t<sizeof(T) == 8, T, std::conditional_t<sizeof(T) == 4, double, float>>;

  template <class W>
  SYMCCL_INLINE static W finish(W x, const ReduceJob& job) {
    const Quotient divisor = static_cast<Quotient>(job.sourceCount);
    T elements[kVectorBytes / sizeof(T)];
    __builtin_memcpy(elements, &x, sizeof x);
    for (T& element : elements) element = static_cast<T>(static_cast<Quotient>(element) / divisor);
    __builtin_memcpy(&x, elements, sizeof x);
    return x;
  }
};

struct PremulSum : Sum {
  template <class L, class W>
  SYMCCL_INLINE static W prepare(W x, const ReduceJob& job, std::size_t source) {
    return L::round(x * static_cast<ScalarOf<W>>(job.factors[source]));
  }
};

/// (a + bi)(c + di) = (ac - bd) + (bc + ad)i, real and imaginary parts in turn.
struct ComplexProduct : Operation {
  template <class W>
  SYMCCL_INLINE static W combine(W a, W b) {
    return multiply(a, b, std::make_integer_sequence<int, sizeof(W) / sizeof(a[0])>{});
  }

 private:
  template <class W, int... I>
  SYMCCL_INLINE static W multiply(W a, W b, std::integer_sequence<int, I...>) {
    const W realOfB = __builtin_shufflevector(b, b, (I & ~1)...);
    const W imaginaryOfB = __builtin_shufflevector(b, b, (I | 1)...);
    const W swappedA = __builtin_shufflevector(a, a, (I ^ 1)...);
    const W signOfReal = {(I & 1 ? 0.0f : -0.0f)...};
    return a * realOfB + as<W>(as<Bytes>(swappedA * imaginaryOfB) ^ as<Bytes>(signOfReal));
  }
};

}  // namespace symccl::SYMCCL_ISA_NAMESPACE
