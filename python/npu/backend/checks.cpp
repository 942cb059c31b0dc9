// What torch_npu refuses, in its words.
#include <c10/util/Exception.h>

#include <numeric>

#include "arguments.hpp"
#include "process_group.hpp"
#include "symccl/types.hpp"

namespace symccl::npu {
namespace {

bool isBitwise(const c10d::ReduceOp& op) {
  return op == c10d::ReduceOp::BAND || op == c10d::ReduceOp::BOR || op == c10d::ReduceOp::BXOR;
}

const char* bitwiseName(const c10d::ReduceOp& op) {
  return op == c10d::ReduceOp::BAND ? "BAND" : op == c10d::ReduceOp::BOR ? "BOR" : "BXOR";
}

}  // namespace

std::string ProcessGroupHCCL::place() const { return placeOf(getRank(), options_->group_name); }

void ProcessGroupHCCL::checkInitialized(const char* otherwise) const {
  try {
    (void)communicator();
  } catch (const c10::DistBackendError&) {
    TORCH_CHECK_WITH(DistBackendError, false, otherwise, place());
  }
}

void ProcessGroupHCCL::checkDense(const at::Tensor& tensor) const {
  TORCH_CHECK(tensor.defined() && tensor.is_privateuseone() && tensor.layout() == at::kStrided,
              "Tensors must be NPU and dense", place());
}

void ProcessGroupHCCL::checkSingle(const at::Tensor& tensor) const {
  checkDense(tensor);
  TORCH_CHECK(tensor.is_contiguous(tensor.suggest_memory_format()), "Tensors must be contiguous", place());
}

void ProcessGroupHCCL::checkOne(const Tensors& tensors) const {
  TORCH_CHECK(!tensors.empty(), "Tensor list must be nonempty", place());
  TORCH_CHECK(tensors.size() == 1, "Tensor list mustn't be larger than the number of available NPUs", place());
  checkSingle(tensors.front());
}

void ProcessGroupHCCL::checkAllDense(const Tensors& tensors) const {
  for (const at::Tensor& tensor : tensors) checkDense(tensor);
}

void ProcessGroupHCCL::checkPair(const at::Tensor& output, const at::Tensor& input) const {
  checkSingle(output);
  checkSingle(input);
  TORCH_CHECK(output.device() == input.device(), "Tensors must be on same NPU device", place());
}

void ProcessGroupHCCL::checkGathered(const at::Tensor& output, const at::Tensor& input) const {
  checkPair(output, input);
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "output tensor must have the same type as input tensor",
              place());
  TORCH_CHECK(output.numel() == input.numel() * getSize(),
              "output tensor size must be equal to world_size times input tensor size", place());
}

void ProcessGroupHCCL::checkScattered(const at::Tensor& output, const at::Tensor& input) const {
  checkPair(output, input);
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "input tensor must be the same type as the output tensor.",
              place());
  TORCH_CHECK(input.numel() == output.numel() * getSize(),
              "input tensor must be the same size as output size times world size", place());
}

void ProcessGroupHCCL::checkSplits(const std::vector<std::int64_t>& splits, const at::Tensor& tensor) const {
  TORCH_CHECK(tensor.dim() > 0,
              "Scalar tensors (0-dim tensors) are not supported in alltoall. Please reshape tensors to at least 1-D.",
              place());
  if (splits.empty()) {
    TORCH_CHECK(tensor.size(0) % getSize() == 0, "Tensor's dim 0 does not divide equally across group size", place());
    return;
  }
  TORCH_CHECK(splits.size() == static_cast<std::size_t>(getSize()), "Number of tensor splits not equal to group size",
              place());
  TORCH_CHECK(std::accumulate(splits.begin(), splits.end(), std::int64_t{0}) == tensor.size(0),
              "Split sizes doesn't match total dim 0 size", place());
}

void ProcessGroupHCCL::checkReduction(const c10d::ReduceOp& op, const at::Tensor& tensor, const char* name) const {
  const DataType type = pytorch::dataTypeOf(tensor.scalar_type());
  TORCH_CHECK(!isBitwise(op) || reducible(type, ReduceOp::bitAnd), "Cannot use ReduceOp.", bitwiseName(op),
              " with HCCL", " on ", pytorch::nameOf(tensor.scalar_type()), place());
  TORCH_CHECK(reducible(type, ReduceOp::sum), "HCCL ", name, ": Unsupported data type ",
              pytorch::nameOf(tensor.scalar_type()), place());
}

/// The parts of `tensor` along dimension 0.
pytorch::ProcessGroupSymCCL::Tensors ProcessGroupHCCL::rowsOf(const at::Tensor& tensor,
                                                              const std::vector<std::int64_t>& splits) const {
  checkSplits(splits, tensor);
  if (splits.empty()) return tensor.chunk(getSize());
  Tensors rows;
  std::int64_t place = 0;
  for (const std::int64_t count : splits) {
    TORCH_CHECK(count >= 0, "Split sizes doesn't match total dim 0 size", this->place());
    rows.push_back(tensor.narrow(0, place, count));
    place += count;
  }
  return rows;
}

}  // namespace symccl::npu
