// The sum of sparse tensors. Ranks may hold different numbers of elements, so their sizes are gathered first.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include "arguments.hpp"
#include "backend.hpp"

namespace symccl::pytorch {
namespace {

constexpr const char* kCall = "all_reduce";

/// The shape of a sparse tensor as ranks compare it: number of elements, sparse dimensions, then the sizes.
std::vector<std::int64_t> shapeOf(const at::Tensor& tensor) {
  std::vector<std::int64_t> shape{tensor._nnz(), tensor.sparse_dim(), tensor.dim()};
  shape.insert(shape.end(), tensor.sizes().begin(), tensor.sizes().end());
  return shape;
}

std::string textOf(const std::int64_t* shape) {
  std::string text = "[";
  for (std::int64_t i = 0; i < shape[2]; ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[3 + i]);
  return text + "] with " + std::to_string(shape[1]) + " sparse dimensions";
}

}  // namespace

ProcessGroupSymCCL::Works ProcessGroupSymCCL::allreduce_sparse(Tensors& tensors,
                                                               const c10d::AllreduceOptions& options) {
  Call call = begin("symccl:all_reduce", c10d::OpType::_ALLREDUCE_SPARSE, options.timeout, false);
  const at::Tensor& tensor = onlyOne(tensors, kCall);
  TORCH_CHECK_VALUE(tensor.defined() && tensor.layout() == at::kSparse && tensor.device().is_cpu(), "symccl: ", kCall,
                    ": expected a torch.sparse_coo tensor on the CPU");
  TORCH_CHECK_VALUE(options.reduceOp == c10d::ReduceOp::SUM, "symccl: ", kCall,
                    ": sparse tensors can only be reduced by ReduceOp.SUM");
  reductionOf(options.reduceOp, tensor.scalar_type(), kCall);
  TORCH_CHECK_VALUE(!batching(), "symccl: ", kCall, ": a sparse tensor cannot be part of a batch");
  auto work = makeWork(call, sequence_ + 1);

  at::AutoDispatchBelowADInplaceOrView below;
  const at::Tensor input = tensor.coalesce();
  const std::vector<std::int64_t> shapes = gatherShapes(input, options.timeout);
  std::vector<std::int64_t> counts;
  const std::size_t stride = shapes.size() / size_;
  for (int rank = 0; rank < size_; ++rank) counts.push_back(shapes[rank * stride]);
  const at::Tensor indices = gatherRows(input.indices().t().contiguous(), counts, options.timeout);
  const at::Tensor values = gatherRows(input.values().contiguous(), counts, options.timeout);

  // Equal indices are summed in rank order, so every rank gets the same bits.
  const at::Tensor sum = at::sparse_coo_tensor(indices.t(), values, input.sizes(), input.options()).coalesce();
  ++sequence_;
  tensors.front().copy_(sum);
  work->setOutputs(tensors);
  work->endInCall();
  return work;
}

std::vector<std::int64_t> ProcessGroupSymCCL::gatherShapes(const at::Tensor& input, std::chrono::milliseconds timeout) {
  constexpr std::size_t kLongest = 3 + 64;  // torch allows 64 dimensions
  std::vector<std::int64_t> mine = shapeOf(input);
  mine.resize(kLongest);
  std::vector<std::int64_t> all(kLongest * size_);
  runOrThrow(Operation::allGather(mine.data(), all.data(), kLongest, DataType::int64), timeout);
  for (int rank = 0; rank < size_; ++rank) {
    const std::int64_t* theirs = all.data() + rank * kLongest;
    TORCH_CHECK_VALUE(std::equal(mine.begin() + 1, mine.end(), theirs + 1), "symccl: ", kCall, ": rank ", rank_,
                      " has a sparse tensor of shape ", textOf(mine.data()), ", rank ", rank, " one of ",
                      textOf(theirs));
  }
  return all;
}

at::Tensor ProcessGroupSymCCL::gatherRows(const at::Tensor& rows, const std::vector<std::int64_t>& counts,
                                          std::chrono::milliseconds timeout) {
  auto sizes = rows.sizes().vec();
  std::int64_t rowBytes = rows.element_size();
  for (std::size_t i = 1; i < sizes.size(); ++i) rowBytes *= sizes[i];
  sizes[0] = 0;
  for (const std::int64_t count : counts) sizes[0] += count;
  at::Tensor all = at::empty(sizes, rows.options());
  auto* place = static_cast<std::byte*>(all.mutable_data_ptr());
  std::vector<Block> blocks;
  for (const std::int64_t count : counts) {
    const auto bytes = static_cast<std::size_t>(count * rowBytes);
    blocks.push_back({place, bytes});
    place += bytes;
  }
  const Block send{const_cast<void*>(rows.const_data_ptr()), rows.nbytes()};
  runOrThrow(Operation::allGatherV(send, blocks, dataTypeOf(rows.scalar_type())), timeout);
  return all;
}

}  // namespace symccl::pytorch
