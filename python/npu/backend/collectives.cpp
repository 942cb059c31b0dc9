// The collectives that take one tensor, or one input and one output: checked as in torch_npu, then the base's.
#include <c10/util/Exception.h>

#include "process_group.hpp"

namespace symccl::npu {

using Base = pytorch::ProcessGroupSymCCL;
using Works = Base::Works;

Works ProcessGroupHCCL::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  checkOne(tensors);
  return Base::broadcast(tensors, options);
}

Works ProcessGroupHCCL::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  checkOne(tensors);
  checkReduction(options.reduceOp, tensors.front(), "AllReduce");
  return Base::allreduce(tensors, options);
}

Works ProcessGroupHCCL::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions&) {
  checkOne(tensors);
  TORCH_CHECK(false, "hccl: all_reduce of sparse tensors: Tensors must be NPU and dense", place());
}

Works ProcessGroupHCCL::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  TORCH_CHECK(!tensors.empty(), "Tensor list must be nonempty", place());
  for (const at::Tensor& tensor : tensors) {
    checkSingle(tensor);
    checkReduction(options.reduceOp, tensor, "AllReduce");
  }
  return Base::allreduce_coalesced(tensors, options);
}

Works ProcessGroupHCCL::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  checkOne(tensors);
  checkReduction(options.reduceOp, tensors.front(), "Reduce");
  return Base::reduce(tensors, options);
}

Works ProcessGroupHCCL::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  checkGathered(output, input);
  return Base::_allgather_base(output, input, options);
}

Works ProcessGroupHCCL::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                        const c10d::AllgatherOptions& options) {
  TORCH_CHECK(outputs.size() == inputs.size(), "Tensor list operands to scatter/gather must have the same length",
              place());
  for (std::size_t i = 0; i < inputs.size(); ++i) checkGathered(outputs[i], inputs[i]);
  return Base::allgather_into_tensor_coalesced(outputs, inputs, options);
}

Works ProcessGroupHCCL::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                             const c10d::ReduceScatterOptions& options) {
  checkScattered(output, input);
  checkReduction(options.reduceOp, input, "ReduceScatter");
  return Base::_reduce_scatter_base(output, input, options);
}

Works ProcessGroupHCCL::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                        const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK(outputs.size() == inputs.size(), "Tensor list operands to reduce_scatter must have the same length",
              place());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    checkScattered(outputs[i], inputs[i]);
    checkReduction(options.reduceOp, inputs[i], "ReduceScatter");
  }
  return Base::reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

Works ProcessGroupHCCL::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& outputSplits,
                                      std::vector<std::int64_t>& inputSplits, const c10d::AllToAllOptions& options) {
  checkPair(output, input);
  const bool even = outputSplits.empty() && inputSplits.empty();
  TORCH_CHECK(output.scalar_type() == input.scalar_type() && (!even || output.numel() == input.numel()),
              "Tensors are not equal in size or data type", place());
  checkSplits(outputSplits, output);
  checkSplits(inputSplits, input);
  return Base::alltoall_base(output, input, outputSplits, inputSplits, options);
}

}  // namespace symccl::npu
