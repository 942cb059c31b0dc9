// The table of this instruction set.
#pragma once

#include "kernels/isa/reduce_loop.hpp"
#include "kernels/isa/stream_loop.hpp"

namespace symccl::SYMCCL_ISA_NAMESPACE {

class TableMaker {
 public:
  constexpr TableMaker() {
    integer<std::int8_t, std::uint8_t>(DataType::int8);
    integer<std::uint8_t, std::uint8_t>(DataType::uint8);
    integer<std::int16_t, std::uint16_t>(DataType::int16);
    integer<std::uint16_t, std::uint16_t>(DataType::uint16);
    integer<std::int32_t, std::uint32_t>(DataType::int32);
    integer<std::uint32_t, std::uint32_t>(DataType::uint32);
    integer<std::int64_t, std::uint64_t>(DataType::int64);
    integer<std::uint64_t, std::uint64_t>(DataType::uint64);
    boolean();
    floating<Float16>(DataType::float16);
    floating<BFloat16>(DataType::bfloat16);
    floating<float>(DataType::float32);
    floating<double>(DataType::float64);
    complex<float>(DataType::complex64);
    complex<double>(DataType::complex128);
  }
  constexpr KernelTable table() const { return table_; }

 private:
  template <class T, class Op>
  constexpr void set(DataType type, ReduceOp op) {
    table_.reduce[static_cast<int>(type)][static_cast<int>(op)] = reduce<T, Op>;
  }

  /// Overflow wraps in unsigned arithmetic; only order and division need T itself.
  template <class T, class Unsigned>
  constexpr void integer(DataType type) {
    set<Unsigned, Sum>(type, ReduceOp::sum);
    set<Unsigned, Product>(type, ReduceOp::product);
    set<T, IntegerMin>(type, ReduceOp::min);
    set<T, IntegerMax>(type, ReduceOp::max);
    set<Unsigned, IntegerAverage<T>>(type, ReduceOp::average);
    set<std::uint8_t, And>(type, ReduceOp::bitAnd);
    set<std::uint8_t, Or>(type, ReduceOp::bitOr);
    set<std::uint8_t, Xor>(type, ReduceOp::bitXor);
  }

  constexpr void boolean() {
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::bitOr}) set<Boolean, Or>(DataType::boolean, op);
    for (ReduceOp op : {ReduceOp::product, ReduceOp::min, ReduceOp::bitAnd}) set<Boolean, And>(DataType::boolean, op);
    set<Boolean, Xor>(DataType::boolean, ReduceOp::bitXor);
  }

  template <class T>
  constexpr void floating(DataType type) {
    set<T, Sum>(type, ReduceOp::sum);
    set<T, Product>(type, ReduceOp::product);
    set<T, FloatingMin>(type, ReduceOp::min);
    set<T, FloatingMax>(type, ReduceOp::max);
    set<T, FloatingAverage>(type, ReduceOp::average);
    set<T, PremulSum>(type, ReduceOp::premulSum);
  }

  /// T is the type of the parts, which only the product mixes.
  template <class T>
  constexpr void complex(DataType type) {
    set<T, Sum>(type, ReduceOp::sum);
    set<T, ComplexProduct>(type, ReduceOp::product);
    set<T, FloatingAverage>(type, ReduceOp::average);
    set<T, PremulSum>(type, ReduceOp::premulSum);
  }

  KernelTable table_{SYMCCL_ISA_NAME, kStepBytes, streamLines, pad, {}};
};

}  // namespace symccl::SYMCCL_ISA_NAMESPACE
