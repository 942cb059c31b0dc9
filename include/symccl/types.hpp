// Element types and reductions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "symccl/export.hpp"

namespace symccl {

/// Element types. The float8 types and `byte` can be moved but not reduced.
enum class DataType : std::uint8_t {
  byte,
  boolean,
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  complex64,
  complex128,
  float8_e4m3fn,
  float8_e5m2,
  float8_e4m3fnuz,
  float8_e5m2fnuz,
};
inline constexpr int kDataTypes = 20;

/// Reductions. float16 and bfloat16 are accumulated in float32; sums run in rank order, so every rank gets the same
/// bits.
///
/// boolean: sum and max are OR, product and min are AND. average: the sum divided by the number of ranks; integers
/// divide toward zero; floating types divide the wide sum and round once. min and max are NaN if any input is NaN;
/// min prefers -0, max +0. complex has sum, product and average. bitAnd, bitOr and bitXor are for integers and boolean.
/// premulSum (floating and complex): each rank's elements times its own factor, rounded to the type, then summed.
enum class ReduceOp : std::uint8_t { sum, product, min, max, average, bitAnd, bitOr, bitXor, premulSum };
inline constexpr int kReduceOps = 9;

/// Bytes of one element.
SYMCCL_EXPORT std::size_t sizeOf(DataType type);
/// The type's name as in "float32".
SYMCCL_EXPORT const char* nameOf(DataType type);
/// The reduction's name as in "sum".
SYMCCL_EXPORT const char* nameOf(ReduceOp op);
/// Whether `op` is defined on `type`.
SYMCCL_EXPORT bool reducible(DataType type, ReduceOp op);

}  // namespace symccl
