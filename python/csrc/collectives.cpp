// The collectives that take one tensor, or one input and one output.
#include <ATen/record_function.h>

#include "arguments.hpp"
#include "backend.hpp"

namespace symccl::pytorch {

using Works = ProcessGroupSymCCL::Works;

namespace {

/// One after another from `place` on.
std::vector<Block> blocksOf(std::byte* place, const std::vector<std::size_t>& sizes) {
  std::vector<Block> blocks;
  blocks.reserve(sizes.size());
  for (const std::size_t bytes : sizes) {
    blocks.push_back({place, bytes});
    place += bytes;
  }
  return blocks;
}

}  // namespace

Works ProcessGroupSymCCL::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  Call call = begin("symccl:broadcast", c10d::OpType::BROADCAST, options.timeout, options.asyncOp);
  const at::Tensor& tensor = onlyOne(tensors, call.name());
  checkRoot(options.rootRank, size_, call.name());
  const bool root = options.rootRank == rank_;
  root ? checkTensor(tensor, call.name()) : checkOutput(tensor, call.name());
  void* data = root ? const_cast<void*>(call.buffers.read(tensor)) : call.buffers.write(tensor);
  call.add(Operation::broadcast(data, countOf(tensor), dataTypeOf(tensor.scalar_type()),
                                static_cast<int>(options.rootRank)));
  if (at::hasCallbacks()) call.inputs = tensors;
  call.outputs = tensors;
  return issue(call);
}

Works ProcessGroupSymCCL::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  Call call = begin("symccl:all_reduce", c10d::OpType::ALLREDUCE, options.timeout, options.asyncOp);
  const at::Tensor& tensor = onlyOne(tensors, call.name());
  if (tensor.defined() && tensor.is_sparse()) return allreduce_sparse(tensors, options);
  addAllReduce(call, tensor, options.reduceOp);
  if (at::hasCallbacks()) call.inputs = tensors;
  call.outputs = tensors;
  return issue(call);
}

// Under the title of all_reduce, as with gloo.
Works ProcessGroupSymCCL::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  Call call = begin("symccl:all_reduce", c10d::OpType::ALLREDUCE_COALESCED, options.timeout, options.asyncOp);
  for (const at::Tensor& tensor : tensors) addAllReduce(call, tensor, options.reduceOp);
  if (at::hasCallbacks()) call.inputs = tensors;
  call.outputs = tensors;
  return issue(call);
}

void ProcessGroupSymCCL::addAllReduce(Call& call, const at::Tensor& tensor, const c10d::ReduceOp& op) {
  checkOutput(tensor, call.name());
  const Reduction reduction = reductionOf(op, tensor.scalar_type(), call.name());
  void* data = call.buffers.update(tensor);
  call.add(Operation::allReduce(data, data, countOf(tensor), dataTypeOf(tensor.scalar_type()), reduction.op))
      .withFactor(reduction.factor);
}

Works ProcessGroupSymCCL::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  Call call = begin("symccl:reduce", c10d::OpType::REDUCE, options.timeout, options.asyncOp);
  const at::Tensor& tensor = onlyOne(tensors, call.name());
  checkRoot(options.rootRank, size_, call.name());
  const bool root = options.rootRank == rank_;
  root ? checkOutput(tensor, call.name()) : checkTensor(tensor, call.name());
  const Reduction reduction = reductionOf(options.reduceOp, tensor.scalar_type(), call.name());
  const void* send = root ? call.buffers.update(tensor) : call.buffers.read(tensor);
  call.add(Operation::reduce(send, root ? const_cast<void*>(send) : nullptr, countOf(tensor),
                             dataTypeOf(tensor.scalar_type()), reduction.op, static_cast<int>(options.rootRank)))
      .withFactor(reduction.factor);
  if (at::hasCallbacks()) call.inputs = tensors;
  call.outputs = tensors;
  return issue(call);
}

Works ProcessGroupSymCCL::_allgather_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::AllgatherOptions& options) {
  Call call = begin("symccl:all_gather_into_tensor", c10d::OpType::_ALLGATHER_BASE, options.timeout, options.asyncOp);
  addAllGather(call, output, input);
  if (at::hasCallbacks()) call.inputs = {input};
  call.outputs = {output};
  return issue(call);
}

Works ProcessGroupSymCCL::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::AllgatherOptions& options) {
  Call call = begin("symccl:all_gather_into_tensor", c10d::OpType::COALESCED, options.timeout, options.asyncOp);
  checkPairs(outputs, inputs, call.name());
  for (std::size_t i = 0; i < inputs.size(); ++i) addAllGather(call, outputs[i], inputs[i]);
  if (at::hasCallbacks()) call.inputs = inputs;
  call.outputs = outputs;
  return issue(call);
}

void ProcessGroupSymCCL::addAllGather(Call& call, const at::Tensor& output, const at::Tensor& input) {
  checkOutput(output, call.name());
  checkTensor(input, call.name());
  checkSameType(output, input, call.name());
  checkSameCount(output, input.numel() * size_, call.name(), "output");
  auto* recv = static_cast<std::byte*>(call.buffers.write(output));
  const void* send = call.buffers.read(input);
  // An input inside the output is this rank's part of it, or else is overwritten before it is read.
  const Range from{static_cast<const std::byte*>(send), input.nbytes()};
  if (send != recv + rank_ * input.nbytes() && from.overlaps({recv, output.nbytes()})) {
    send = call.buffers.copyOf(input);
  }
  call.add(Operation::allGather(send, recv, countOf(input), dataTypeOf(input.scalar_type())));
}

Works ProcessGroupSymCCL::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::ReduceScatterOptions& options) {
  Call call =
      begin("symccl:reduce_scatter_tensor", c10d::OpType::_REDUCE_SCATTER_BASE, options.timeout, options.asyncOp);
  addReduceScatter(call, output, input, options.reduceOp);
  if (at::hasCallbacks()) call.inputs = {input};
  call.outputs = {output};
  return issue(call);
}

Works ProcessGroupSymCCL::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::ReduceScatterOptions& options) {
  Call call = begin("symccl:reduce_scatter_tensor", c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED, options.timeout,
                    options.asyncOp);
  checkPairs(outputs, inputs, call.name());
  for (std::size_t i = 0; i < inputs.size(); ++i) addReduceScatter(call, outputs[i], inputs[i], options.reduceOp);
  if (at::hasCallbacks()) call.inputs = inputs;
  call.outputs = outputs;
  return issue(call);
}

void ProcessGroupSymCCL::addReduceScatter(Call& call, const at::Tensor& output, const at::Tensor& input,
                                          const c10d::ReduceOp& op) {
  checkOutput(output, call.name());
  checkTensor(input, call.name());
  checkSameType(output, input, call.name());
  checkSameCount(input, output.numel() * size_, call.name(), "input");
  const Reduction reduction = reductionOf(op, input.scalar_type(), call.name());
  const auto* send = static_cast<const std::byte*>(call.buffers.read(input));
  void* recv = call.buffers.write(output);
  const Range to{static_cast<const std::byte*>(recv), output.nbytes()};
  if (recv != send + rank_ * output.nbytes() && to.overlaps({send, input.nbytes()})) {
    recv = call.buffers.writeAside(output);
  }
  call.add(Operation::reduceScatter(send, recv, countOf(output), dataTypeOf(output.scalar_type()), reduction.op))
      .withFactor(reduction.factor);
}

// Always the kind with a block for each rank: a rank may leave out splits that others give.
Works ProcessGroupSymCCL::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& outputSplits,
                                        std::vector<std::int64_t>& inputSplits, const c10d::AllToAllOptions& options) {
  Call call = begin("symccl:all_to_all", c10d::OpType::ALLTOALL_BASE, options.timeout, options.asyncOp);
  checkOutput(output, call.name());
  checkTensor(input, call.name());
  checkSameType(output, input, call.name());
  const auto sendBytes = partsOf(input, inputSplits, size_, call.name(), "input");
  const auto recvBytes = partsOf(output, outputSplits, size_, call.name(), "output");
  if (inputSplits.empty() && outputSplits.empty()) checkSameCount(output, input.numel(), call.name(), "output");
  auto* recv = static_cast<std::byte*>(call.buffers.write(output));
  const auto* send = static_cast<const std::byte*>(call.buffers.read(input));
  if (Range{send, input.nbytes()}.overlaps({recv, output.nbytes()})) {
    send = static_cast<const std::byte*>(call.buffers.copyOf(input));
  }
  const DataType type = dataTypeOf(input.scalar_type());
  call.add(blocksOf(const_cast<std::byte*>(send), sendBytes), blocksOf(recv, recvBytes),
           [&](auto& sends, auto& recvs) { return Operation::allToAllV(sends, recvs, type); });
  if (at::hasCallbacks()) call.inputs = {input};
  call.outputs = {output};
  return issue(call);
}

Works ProcessGroupSymCCL::barrier(const c10d::BarrierOptions& options) {
  Call call = begin("symccl:barrier", c10d::OpType::BARRIER, options.timeout, options.asyncOp);
  call.add(Operation::barrier());
  return issue(call);
}

}  // namespace symccl::pytorch
