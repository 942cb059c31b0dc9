// The floating-point mode in which reductions run.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <cstdint>

namespace symccl {

/// For its lifetime the calling thread rounds to nearest, keeps denormals and traps nothing, whatever it had set before
/// (PyTorch's set_flush_denormal, for one): ranks in different modes would get different bits.
class StandardArithmetic {
 public:
  StandardArithmetic() : before_(mode()) {
    if (before_ != kStandard) setMode(kStandard);
  }
  ~StandardArithmetic() {
    if (before_ != kStandard) setMode(before_);
  }
  StandardArithmetic(const StandardArithmetic&) = delete;
  StandardArithmetic& operator=(const StandardArithmetic&) = delete;

 private:
#if defined(__SSE2__)
  using Mode = unsigned;
  static constexpr Mode kStandard = 0x1f80;  // all exceptions masked
  static Mode mode() { return _mm_getcsr() & ~unsigned{_MM_EXCEPT_MASK}; }
  static void setMode(Mode mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
  using Mode = std::uint64_t;
  static constexpr Mode kStandard = 0;
  static Mode mode() {
    Mode mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void setMode(Mode mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
  using Mode = int;
  static constexpr Mode kStandard = 0;
  static Mode mode() { return kStandard; }
  static void setMode(Mode) {}
#endif

  const Mode before_;
};

}  // namespace symccl
