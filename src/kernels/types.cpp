#include "symccl/types.hpp"

namespace symccl {

std::size_t sizeOf(DataType type) {
  switch (type) {
    case DataType::byte:
    case DataType::boolean:
    case DataType::int8:
    case DataType::uint8:
    case DataType::float8_e4m3fn:
    case DataType::float8_e5m2:
    case DataType::float8_e4m3fnuz:
    case DataType::float8_e5m2fnuz:
      return 1;
    case DataType::int16:
    case DataType::uint16:
    case DataType::float16:
    case DataType::bfloat16:
      return 2;
    case DataType::int32:
    case DataType::uint32:
    case DataType::float32:
      return 4;
    case DataType::int64:
    case DataType::uint64:
    case DataType::float64:
    case DataType::complex64:
      return 8;
    case DataType::complex128:
      return 16;
  }
  return 0;
}

const char* nameOf(DataType type) {
  switch (type) {
    case DataType::byte:
      return "byte";
    case DataType::boolean:
      return "boolean";
    case DataType::int8:
      return "int8";
    case DataType::uint8:
      return "uint8";
    case DataType::int16:
      return "int16";
    case DataType::uint16:
      return "uint16";
    case DataType::int32:
      return "int32";
    case DataType::uint32:
      return "uint32";
    case DataType::int64:
      return "int64";
    case DataType::uint64:
      return "uint64";
    case DataType::float16:
      return "float16";
    case DataType::bfloat16:
      return "bfloat16";
    case DataType::float32:
      return "float32";
    case DataType::float64:
      return "float64";
    case DataType::complex64:
      return "complex64";
    case DataType::complex128:
      return "complex128";
    case DataType::float8_e4m3fn:
      return "float8_e4m3fn";
    case DataType::float8_e5m2:
      return "float8_e5m2";
    case DataType::float8_e4m3fnuz:
      return "float8_e4m3fnuz";
    case DataType::float8_e5m2fnuz:
      return "float8_e5m2fnuz";
  }
  return "unknown type";
}

const char* nameOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::product:
      return "product";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
    case ReduceOp::average:
      return "average";
    case ReduceOp::bitAnd:
      return "bitAnd";
    case ReduceOp::bitOr:
      return "bitOr";
    case ReduceOp::bitXor:
      return "bitXor";
    case ReduceOp::premulSum:
      return "premulSum";
  }
  return "unknown reduction";
}

namespace {

enum class Kind { moved, boolean, integer, floating, complex };

Kind kindOf(DataType type) {
  switch (type) {
    case DataType::boolean:
      return Kind::boolean;
    case DataType::int8:
    case DataType::uint8:
    case DataType::int16:
    case DataType::uint16:
    case DataType::int32:
    case DataType::uint32:
    case DataType::int64:
    case DataType::uint64:
      return Kind::integer;
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::float32:
    case DataType::float64:
      return Kind::floating;
    case DataType::complex64:
    case DataType::complex128:
      return Kind::complex;
    default:
      return Kind::moved;
  }
}

}  // namespace

bool reducible(DataType type, ReduceOp op) {
  const Kind kind = kindOf(type);
  if (kind == Kind::moved) return false;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::product:
      return true;
    case ReduceOp::min:
    case ReduceOp::max:
      return kind != Kind::complex;
    case ReduceOp::average:
      return kind != Kind::boolean;
    case ReduceOp::bitAnd:
    case ReduceOp::bitOr:
    case ReduceOp::bitXor:
      return kind == Kind::boolean || kind == Kind::integer;
    case ReduceOp::premulSum:
      return kind == Kind::floating || kind == Kind::complex;
  }
  return false;
}

}  // namespace symccl
