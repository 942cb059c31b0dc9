// The error word: what a member tells the others about its first error.
#pragma once

#include <cstdint>

#include "symccl/result.hpp"

namespace symccl {

/// A code, the rank that set it first, and the rank that it blames (-1: none). Packed in one non-zero word.
struct Failure {
  Code code;
  int origin;
  int culprit;

  std::uint64_t pack() const {
    return (static_cast<std::uint64_t>(code) + 1) | static_cast<std::uint64_t>(origin) << 8 |
           static_cast<std::uint64_t>(culprit + 1) << 32;
  }
  /// Of a word that a peer wrote: any value gives some Failure with ranks of at most 2^24.
  static Failure unpack(std::uint64_t word) {
    const auto code = static_cast<std::uint8_t>((word & 0xff) - 1);
    return {code <= static_cast<std::uint8_t>(Code::internal) ? static_cast<Code>(code) : Code::corrupt,
            static_cast<int>(word >> 8 & 0xffffff), static_cast<int>(word >> 32 & 0xffffff) - 1};
  }
};

}  // namespace symccl
