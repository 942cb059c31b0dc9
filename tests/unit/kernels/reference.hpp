// What a reduction must give, worked out by other means than the kernels': element by element, each operation in
// quadruple precision or 128-bit integers and rounded once to the accumulator's type; float16 and bfloat16 by
// arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "symccl/types.hpp"

namespace symccl::test {

/// A 16-bit floating format.
struct SmallFormat {
  int exponentBits;
  int fractionBits;
};
inline constexpr SmallFormat kFloat16{5, 10};
inline constexpr SmallFormat kBfloat16{8, 7};

float decode(SmallFormat format, std::uint16_t bits);
/// Rounds to nearest, ties to even. NaN becomes the one with only the top fraction bit set, positive.
std::uint16_t encode(SmallFormat format, float value);

/// The bytes of the result of `count` elements. Every NaN is the one that encode() makes, in the type's format.
std::vector<char> expectedReduction(DataType type, ReduceOp op, const std::vector<const void*>& sources,
                                    const double* factors, std::size_t count);

/// Elements that differ: ordinary numbers, any bits, zeros of both signs, denormals, infinities, all kinds of NaN.
std::vector<char> pattern(DataType type, std::size_t count, std::uint64_t seed);
/// Any bits.
std::vector<char> randomBits(std::size_t bytes, std::uint64_t seed);

/// Every pair for which reducible() holds.
struct TypeAndOp {
  DataType type;
  ReduceOp op;
};
std::vector<TypeAndOp> reducibleCases();

}  // namespace symccl::test
