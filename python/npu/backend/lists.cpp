// The calls that take lists of tensors, the uneven forms, and point-to-point: checked as in torch_npu, then the base's.
#include <c10/util/Exception.h>

#include "process_group.hpp"

namespace symccl::npu {

using Base = pytorch::ProcessGroupSymCCL;
using Works = Base::Works;

Works ProcessGroupHCCL::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) {
  checkOne(inputs);
  for (const Tensors& list : outputs) checkAllDense(list);
  return Base::allgather(outputs, inputs, options);
}

Works ProcessGroupHCCL::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                            const c10d::AllgatherOptions& options) {
  checkAllDense(inputs);
  for (const Tensors& list : outputs) checkAllDense(list);
  return Base::allgather_coalesced(outputs, inputs, options);
}

Works ProcessGroupHCCL::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  checkOne(inputs);
  for (const Tensors& list : outputs) checkAllDense(list);
  return Base::gather(outputs, inputs, options);
}

Works ProcessGroupHCCL::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) {
  checkOne(outputs);
  for (const Tensors& list : inputs) checkAllDense(list);
  return Base::scatter(outputs, inputs, options);
}

Works ProcessGroupHCCL::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                       const c10d::ReduceScatterOptions& options) {
  checkOne(outputs);
  for (const Tensors& list : inputs) checkAllDense(list);
  checkReduction(options.reduceOp, outputs.front(), "ReduceScatter");
  return Base::reduce_scatter(outputs, inputs, options);
}

Works ProcessGroupHCCL::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  TORCH_CHECK(outputs.size() == static_cast<std::size_t>(getSize()),
              "the size of output_tensors and worldsize must equal", place());
  TORCH_CHECK(outputs.size() == inputs.size(), "the size of input_tensors and output_tensors must equal", place());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    checkSingle(outputs[i]);
    checkSingle(inputs[i]);
    TORCH_CHECK(outputs[i].device() == outputs[0].device() && inputs[i].device() == outputs[0].device(),
                "tensors must be on the same device", place());
  }
  return Base::alltoall(outputs, inputs, options);
}

Works ProcessGroupHCCL::send(Tensors& tensors, int peer, int tag) {
  checkOne(tensors);
  return Base::send(tensors, peer, tag);
}

Works ProcessGroupHCCL::recv(Tensors& tensors, int peer, int tag) {
  checkOne(tensors);
  return Base::recv(tensors, peer, tag);
}

Works ProcessGroupHCCL::recvAnysource(Tensors& tensors, int tag) {
  checkOne(tensors);
  return Base::recvAnysource(tensors, tag);
}

Works ProcessGroupHCCL::allGatherUneven(at::Tensor& output, at::Tensor& input, const std::vector<std::int64_t>& splits,
                                        const c10d::AllgatherOptions& options) {
  checkPair(output, input);
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "output tensor must have the same type as input tensor",
              place());
  std::vector<Tensors> outputs{rowsOf(output, splits)};
  Tensors inputs{input};
  return Base::allgather(outputs, inputs, options);
}

Works ProcessGroupHCCL::reduceScatterUneven(at::Tensor& output, at::Tensor& input,
                                            const std::vector<std::int64_t>& splits,
                                            const c10d::ReduceScatterOptions& options) {
  checkPair(output, input);
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "input tensor must be the same type as the output tensor.",
              place());
  checkReduction(options.reduceOp, input, "ReduceScatter");
  std::vector<Tensors> inputs{rowsOf(input, splits)};
  Tensors outputs{output};
  return Base::reduce_scatter(outputs, inputs, options);
}

}  // namespace symccl::npu
