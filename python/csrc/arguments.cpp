#include "arguments.hpp"

#include <ATen/MemoryOverlap.h>
#include <c10/core/ScalarType.h>

#include <atomic>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace symccl::pytorch {
namespace {

std::atomic<c10::DeviceType> g_hostDevice{c10::DeviceType::CPU};

ReduceOp reduceOpOf(const c10d::ReduceOp& op, const char* call) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return ReduceOp::sum;
    case c10d::ReduceOp::AVG:
      return ReduceOp::average;
    case c10d::ReduceOp::PRODUCT:
      return ReduceOp::product;
    case c10d::ReduceOp::MIN:
      return ReduceOp::min;
    case c10d::ReduceOp::MAX:
      return ReduceOp::max;
    case c10d::ReduceOp::BAND:
      return ReduceOp::bitAnd;
    case c10d::ReduceOp::BOR:
      return ReduceOp::bitOr;
    case c10d::ReduceOp::BXOR:
      return ReduceOp::bitXor;
    case c10d::ReduceOp::PREMUL_SUM:
      return ReduceOp::premulSum;
    default:
      TORCH_CHECK_VALUE(false, "symccl: ", call, ": unknown reduction ", static_cast<int>(op.op_));
  }
}

double factorOf(const c10d::ReduceOp& op, const char* call) {
  const auto* supplement = dynamic_cast<const c10d::PreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK_VALUE(supplement != nullptr, "symccl: ", call, ": ReduceOp.PREMUL_SUM needs a factor");
  if (!supplement->tensor_factor.defined()) return supplement->double_factor;
  TORCH_CHECK_VALUE(isHostMemory(supplement->tensor_factor) && !supplement->tensor_factor.is_complex(),
                    "symccl: ", call, ": the factor of ReduceOp.PREMUL_SUM must be a real number or a real CPU tensor");
  return supplement->tensor_factor.item().toDouble();
}

std::string acceptedReductions(DataType type) {
  std::string names;
  for (int op = 0; op < kReduceOps; ++op) {
    if (!reducible(type, static_cast<ReduceOp>(op))) continue;
    names += (names.empty() ? "" : ", ") + std::string(symccl::nameOf(static_cast<ReduceOp>(op)));
  }
  return names.empty() ? "none, it can only be moved" : names;
}

}  // namespace

std::string nameOf(at::ScalarType type) { return "torch." + std::string(c10::getDtypeNames(type).first); }

DataType dataTypeOf(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return DataType::boolean;
    case at::kChar:
      return DataType::int8;
    case at::kByte:
      return DataType::uint8;
    case at::kShort:
      return DataType::int16;
    case at::kUInt16:
      return DataType::uint16;
    case at::kInt:
      return DataType::int32;
    case at::kUInt32:
      return DataType::uint32;
    case at::kLong:
      return DataType::int64;
    case at::kUInt64:
      return DataType::uint64;
    case at::kHalf:
      return DataType::float16;
    case at::kBFloat16:
      return DataType::bfloat16;
    case at::kFloat:
      return DataType::float32;
    case at::kDouble:
      return DataType::float64;
    case at::kComplexFloat:
      return DataType::complex64;
    case at::kComplexDouble:
      return DataType::complex128;
    case at::kFloat8_e4m3fn:
      return DataType::float8_e4m3fn;
    case at::kFloat8_e5m2:
      return DataType::float8_e5m2;
    case at::kFloat8_e4m3fnuz:
      return DataType::float8_e4m3fnuz;
    case at::kFloat8_e5m2fnuz:
      return DataType::float8_e5m2fnuz;
    default:
      return DataType::byte;
  }
}

std::size_t countOf(const at::Tensor& tensor) {
  const DataType type = dataTypeOf(tensor.scalar_type());
  return type == DataType::byte ? tensor.nbytes() : static_cast<std::size_t>(tensor.numel());
}

Reduction reductionOf(const c10d::ReduceOp& op, at::ScalarType type, const char* call) {
  const ReduceOp reduction = reduceOpOf(op, call);
  const DataType element = dataTypeOf(type);
  TORCH_CHECK_TYPE(reducible(element, reduction), "symccl: ", call, ": ", symccl::nameOf(reduction),
                   " is not defined for ", nameOf(type), " (accepted: ", acceptedReductions(element), ")");
  return {reduction, reduction == ReduceOp::premulSum ? factorOf(op, call) : 1.0};
}

void addHostDevice(c10::DeviceType type) { g_hostDevice = type; }

bool isHostMemory(const at::Tensor& tensor) {
  return tensor.device().is_cpu() || tensor.device().type() == g_hostDevice.load(std::memory_order_relaxed);
}

void checkTensor(const at::Tensor& tensor, const char* call) {
  TORCH_CHECK_VALUE(tensor.defined(), "symccl: ", call, ": a tensor is undefined");
  TORCH_CHECK_VALUE(isHostMemory(tensor), "symccl: ", call, ": a tensor is on device ", tensor.device(),
                    " (accepted: cpu)");
  TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, "symccl: ", call, ": a tensor has layout ", tensor.layout(),
                    " (accepted: torch.strided; all_reduce also takes torch.sparse_coo)");
  TORCH_CHECK_TYPE(!tensor.is_quantized(), "symccl: ", call, ": a tensor is quantized (", nameOf(tensor.scalar_type()),
                   "); send its int_repr() instead");
}

void checkOutput(const at::Tensor& tensor, const char* call) {
  checkTensor(tensor, call);
  TORCH_CHECK_VALUE(tensor.is_contiguous() || at::has_internal_overlap(tensor) != at::MemOverlap::Yes, "symccl: ", call,
                    ": several elements of a tensor to be written share one place (it was made by expand()?)");
}

const at::Tensor& onlyOne(const std::vector<at::Tensor>& tensors, const char* call) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "symccl: ", call, " takes one tensor, got ", tensors.size());
  return tensors.front();
}

const std::vector<at::Tensor>& onlyOne(const std::vector<std::vector<at::Tensor>>& lists, const char* call) {
  TORCH_CHECK_VALUE(lists.size() == 1, "symccl: ", call, " takes one list of tensors, got ", lists.size());
  return lists.front();
}

void checkLength(std::size_t length, int size, const char* call, const char* what) {
  TORCH_CHECK_VALUE(length == static_cast<std::size_t>(size), "symccl: ", call, ": the ", what, " has ", length,
                    " tensors, the group has ", size, " ranks");
}

void checkPairs(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs, const char* call) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "symccl: ", call, ": ", outputs.size(), " outputs for ",
                    inputs.size(), " inputs");
}

void checkSameType(const at::Tensor& tensor, const at::Tensor& other, const char* call) {
  TORCH_CHECK_VALUE(tensor.scalar_type() == other.scalar_type(), "symccl: ", call,
                    ": the tensors have different dtypes, ", nameOf(tensor.scalar_type()), " and ",
                    nameOf(other.scalar_type()));
}

void checkSameCount(const at::Tensor& tensor, std::int64_t count, const char* call, const char* what) {
  TORCH_CHECK_VALUE(tensor.numel() == count, "symccl: ", call, ": the ", what, " has ", tensor.numel(),
                    " elements, expected ", count);
}

void checkRoot(std::int64_t root, int size, const char* call) {
  TORCH_CHECK_VALUE(root >= 0 && root < size, "symccl: ", call, ": rank ", root, " is not in the group of ", size,
                    " ranks");
}

std::vector<std::size_t> partsOf(const at::Tensor& tensor, const std::vector<std::int64_t>& splits, int size,
                                 const char* call, const char* what) {
  TORCH_CHECK_VALUE(tensor.dim() > 0, "symccl: ", call, ": the ", what, " must have at least one dimension");
  const std::int64_t rows = tensor.size(0);
  std::vector<std::size_t> parts(size);
  if (splits.empty()) {
    TORCH_CHECK_VALUE(rows % size == 0, "symccl: ", call, ": dimension 0 of the ", what, " is ", rows,
                      ", which the group's ", size, " ranks do not divide");
    for (auto& part : parts) part = tensor.nbytes() / size;
    return parts;
  }
  checkLength(splits.size(), size, call, "list of split sizes");
  std::int64_t sum = 0;
  for (const std::int64_t split : splits) {
    TORCH_CHECK_VALUE(split >= 0, "symccl: ", call, ": split sizes cannot be negative, got ", split);
    sum += split;
  }
  TORCH_CHECK_VALUE(sum == rows, "symccl: ", call, ": the split sizes of the ", what, " add up to ", sum,
                    ", its dimension 0 is ", rows);
  const std::size_t rowBytes = rows == 0 ? 0 : tensor.nbytes() / rows;
  for (int rank = 0; rank < size; ++rank) parts[rank] = splits[rank] * rowBytes;
  return parts;
}

}  // namespace symccl::pytorch
