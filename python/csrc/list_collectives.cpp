// The collectives that take a list with one tensor for each rank. The tensors of a list may differ in size.
#include <ATen/record_function.h>

#include <algorithm>

#include "arguments.hpp"
#include "backend.hpp"

namespace symccl::pytorch {

using Works = ProcessGroupSymCCL::Works;
using Tensors = ProcessGroupSymCCL::Tensors;

namespace {

// One dtype, and the tensor of this rank as large as `own`.
void checkList(const Tensors& list, const at::Tensor& own, int rank, int size, bool written, const char* call,
               const char* what) {
  checkLength(list.size(), size, call, what);
  for (const at::Tensor& tensor : list) {
    written ? checkOutput(tensor, call) : checkTensor(tensor, call);
    checkSameType(tensor, own, call);
  }
  checkSameCount(list[rank], own.numel(), call, what);
}

std::vector<Block> written(Call& call, const Tensors& tensors) {
  std::vector<Block> blocks;
  for (const at::Tensor& tensor : tensors) blocks.push_back({call.buffers.write(tensor), tensor.nbytes()});
  return blocks;
}

// Inputs that share memory with an output are copied first: nobody says in which order parts arrive.
Block readBlock(Call& call, const at::Tensor& tensor, const Tensors& outputs) {
  const Range span = spanOf(tensor);
  const bool shared = std::any_of(outputs.begin(), outputs.end(),
                                  [&](const at::Tensor& output) { return span.overlaps(spanOf(output)); });
  const void* data = shared ? call.buffers.copyOf(tensor) : call.buffers.read(tensor);
  return {const_cast<void*>(data), tensor.nbytes()};
}

std::vector<Block> readBlocks(Call& call, const Tensors& tensors, const Tensors& outputs) {
  std::vector<Block> blocks;
  for (const at::Tensor& tensor : tensors) blocks.push_back(readBlock(call, tensor, outputs));
  return blocks;
}

}  // namespace

void ProcessGroupSymCCL::addAllGatherV(Call& call, const Tensors& outputs, const at::Tensor& input) {
  checkTensor(input, call.name());
  checkList(outputs, input, rank_, size_, true, call.name(), "output list");
  // The usual sharing, the input being the output's own tensor, is what the operation calls in place.
  const bool inPlace = input.is_contiguous() && outputs[rank_].is_contiguous() && input.nbytes() != 0 &&
                       input.const_data_ptr() == outputs[rank_].const_data_ptr();
  const Block send =
      inPlace ? Block{const_cast<void*>(call.buffers.read(input)), input.nbytes()} : readBlock(call, input, outputs);
  const DataType type = dataTypeOf(input.scalar_type());
  call.add({}, written(call, outputs), [&](auto&, auto& recv) { return Operation::allGatherV(send, recv, type); });
}

Works ProcessGroupSymCCL::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                    const c10d::AllgatherOptions& options) {
  Call call = begin("symccl:all_gather", c10d::OpType::ALLGATHER, options.timeout, options.asyncOp);
  const Tensors& list = onlyOne(outputs, call.name());
  addAllGatherV(call, list, onlyOne(inputs, call.name()));
  if (at::hasCallbacks()) call.inputs = inputs;
  call.outputs = list;
  return issue(call);
}

Works ProcessGroupSymCCL::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  Call call = begin("symccl:all_gather", c10d::OpType::ALLGATHER_COALESCED, options.timeout, options.asyncOp);
  checkLength(outputs.size(), size_, call.name(), "list of output lists");
  for (const Tensors& list : outputs) {
    TORCH_CHECK_VALUE(list.size() == inputs.size(), "symccl: ", call.name(), ": an output list has ", list.size(),
                      " tensors, the input list has ", inputs.size());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensors list;
    for (const Tensors& ofRank : outputs) list.push_back(ofRank[i]);
    addAllGatherV(call, list, inputs[i]);
  }
  if (at::hasCallbacks()) call.inputs = inputs;
  for (const Tensors& list : outputs) call.outputs.insert(call.outputs.end(), list.begin(), list.end());
  return issue(call);
}

Works ProcessGroupSymCCL::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  Call call = begin("symccl:gather", c10d::OpType::GATHER, options.timeout, options.asyncOp);
  const at::Tensor& input = onlyOne(inputs, call.name());
  checkTensor(input, call.name());
  checkRoot(options.rootRank, size_, call.name());
  const DataType type = dataTypeOf(input.scalar_type());
  const int root = static_cast<int>(options.rootRank);
  if (root == rank_) {
    const Tensors& list = onlyOne(outputs, call.name());
    checkList(list, input, rank_, size_, true, call.name(), "output list");
    const Block send = readBlock(call, input, list);
    call.add({}, written(call, list), [&](auto&, auto& recv) { return Operation::gatherV(send, recv, type, root); });
    call.outputs = list;
  } else {
    TORCH_CHECK_VALUE(outputs.empty(), "symccl: ", call.name(), ": only the root, rank ", root,
                      ", takes an output list");
    const Block send = readBlock(call, input, {});
    call.add(Operation::gatherV(send, {}, type, root));
  }
  if (at::hasCallbacks()) call.inputs = inputs;
  return issue(call);
}

Works ProcessGroupSymCCL::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) {
  Call call = begin("symccl:scatter", c10d::OpType::SCATTER, options.timeout, options.asyncOp);
  const at::Tensor& output = onlyOne(outputs, call.name());
  checkOutput(output, call.name());
  checkRoot(options.rootRank, size_, call.name());
  const DataType type = dataTypeOf(output.scalar_type());
  const int root = static_cast<int>(options.rootRank);
  const Block recv{call.buffers.write(output), output.nbytes()};
  if (root == rank_) {
    const Tensors& list = onlyOne(inputs, call.name());
    checkList(list, output, rank_, size_, false, call.name(), "input list");
    call.add(readBlocks(call, list, outputs), {},
             [&](auto& send, auto&) { return Operation::scatterV(send, recv, type, root); });
    if (at::hasCallbacks()) call.inputs = list;
  } else {
    TORCH_CHECK_VALUE(inputs.empty(), "symccl: ", call.name(), ": only the root, rank ", root, ", takes an input list");
    call.add(Operation::scatterV({}, recv, type, root));
  }
  call.outputs = outputs;
  return issue(call);
}

Works ProcessGroupSymCCL::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                         const c10d::ReduceScatterOptions& options) {
  Call call = begin("symccl:reduce_scatter", c10d::OpType::REDUCE_SCATTER, options.timeout, options.asyncOp);
  const at::Tensor& output = onlyOne(outputs, call.name());
  const Tensors& list = onlyOne(inputs, call.name());
  checkOutput(output, call.name());
  checkList(list, output, rank_, size_, false, call.name(), "input list");
  const Reduction reduction = reductionOf(options.reduceOp, output.scalar_type(), call.name());
  const DataType type = dataTypeOf(output.scalar_type());
  const Block recv{call.buffers.write(output), output.nbytes()};
  call.add(readBlocks(call, list, outputs), {}, [&](auto& send, auto&) {
    return Operation::reduceScatterV(send, recv, type, reduction.op).withFactor(reduction.factor);
  });
  if (at::hasCallbacks()) call.inputs = list;
  call.outputs = outputs;
  return issue(call);
}

Works ProcessGroupSymCCL::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  Call call = begin("symccl:all_to_all", c10d::OpType::ALLTOALL, options.timeout, options.asyncOp);
  checkLength(outputs.size(), size_, call.name(), "output list");
  checkTensor(outputs[rank_], call.name());
  checkList(inputs, outputs[rank_], rank_, size_, false, call.name(), "input list");
  checkList(outputs, outputs[rank_], rank_, size_, true, call.name(), "output list");
  const DataType type = dataTypeOf(inputs[rank_].scalar_type());
  auto sends = readBlocks(call, inputs, outputs);
  call.add(std::move(sends), written(call, outputs),
           [&](auto& send, auto& recv) { return Operation::allToAllV(send, recv, type); });
  if (at::hasCallbacks()) call.inputs = inputs;
  call.outputs = outputs;
  return issue(call);
}

}  // namespace symccl::pytorch
