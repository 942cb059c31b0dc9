#include "symccl_bench/task.hpp"

#include <algorithm>

namespace symccl::bench {

const std::vector<OpTraits>& operations() {
  // name, reduces, rooted, perRank, inPlace, sized
  static const std::vector<OpTraits> all = {
      {Op::allReduce, "all_reduce", true, false, false, true, true},
      {Op::reduceScatter, "reduce_scatter", true, false, true, true, true},
      {Op::allGather, "all_gather", false, false, true, true, true},
      {Op::allToAll, "all_to_all", false, false, true, true, true},
      {Op::broadcast, "broadcast", false, true, false, false, true},
      {Op::reduce, "reduce", true, true, false, true, true},
      {Op::gather, "gather", false, true, true, false, true},
      {Op::scatter, "scatter", false, true, true, false, true},
      {Op::allGatherV, "all_gather_v", false, false, true, false, true},
      {Op::reduceScatterV, "reduce_scatter_v", true, false, true, false, true},
      {Op::allToAllV, "all_to_all_v", false, false, true, false, true},
      {Op::gatherV, "gather_v", false, true, true, false, true},
      {Op::scatterV, "scatter_v", false, true, true, false, true},
      {Op::sendRecv, "sendrecv", false, false, false, false, true},
      {Op::barrier, "barrier", false, false, false, false, false},
      {Op::communicator, "communicator", false, false, false, false, false},
      {Op::ddpTransformer, "ddp_transformer", false, false, false, false, false},
      {Op::ddpConvolution, "ddp_convolution", false, false, false, false, false},
  };
  return all;
}

const OpTraits& traitsOf(Op op) { return operations()[static_cast<std::size_t>(op)]; }

std::size_t Task::blockElements(int from, int to) const {
  const auto n = static_cast<std::size_t>(ranks);
  const auto rising = [&](int rank) { return 2 * count * (static_cast<std::size_t>(rank) + 1) / (n + 1); };
  switch (op) {
    case Op::allGatherV:
    case Op::gatherV:
      return rising(from);
    case Op::reduceScatterV:
    case Op::scatterV:
      return rising(to);
    case Op::allToAllV:
      return rising((from + to) % ranks);
    default:
      return count;
  }
}

std::size_t Task::sendOffset(int from, int to) const {
  std::size_t offset = 0;
  for (int before = 0; before < to; ++before) offset += blockElements(from, before);
  return offset;
}

std::size_t Task::recvOffset(int from, int to) const {
  std::size_t offset = 0;
  for (int before = 0; before < from; ++before) offset += blockElements(before, to);
  return offset;
}

// All that a rank receives of a v kind is as much as what it sends to all, or as what all send to it.
std::size_t Task::bytes() const {
  const OpTraits& traits = traitsOf(op);
  if (!traits.sized) return 0;
  if (!traits.perRank) return count * elementBytes();
  return std::max(sendOffset(0, ranks), recvOffset(ranks, 0)) * elementBytes();
}

std::size_t Task::sendElements(int rank) const {
  switch (op) {
    case Op::reduceScatter:
    case Op::allToAll:
    case Op::scatter:
    case Op::reduceScatterV:
    case Op::allToAllV:
    case Op::scatterV:
      return sendOffset(rank, ranks);
    case Op::broadcast:  // its one buffer counts as the output
      return 0;
    default:
      return traitsOf(op).sized ? blockElements(rank, 0) : 0;
  }
}

std::size_t Task::recvElements(int rank) const {
  switch (op) {
    case Op::allGather:
    case Op::allToAll:
    case Op::gather:
    case Op::allGatherV:
    case Op::allToAllV:
    case Op::gatherV:
      return recvOffset(ranks, rank);
    default:
      return traitsOf(op).sized ? blockElements(0, rank) : 0;
  }
}

double Task::busFactor() const {
  const double n = ranks;
  switch (op) {
    case Op::allReduce:
      return 2 * (n - 1) / n;
    default:
      return traitsOf(op).perRank ? (n - 1) / n : 1;
  }
}

double Task::leastTraffic() const {
  const double n = ranks, whole = static_cast<double>(bytes());
  switch (op) {
    case Op::allReduce:
    case Op::allGather:
    case Op::allGatherV:
    case Op::allToAll:
    case Op::allToAllV:
    case Op::sendRecv:
      return 2 * whole * n;
    case Op::reduceScatter:
    case Op::reduceScatterV:
    case Op::reduce:
      return (whole + whole / n) * n;
    case Op::broadcast:
      return 2 * whole * (n - 1);
    case Op::gather:
    case Op::gatherV:
    case Op::scatter:
    case Op::scatterV:
      return 2 * whole;
    default:
      return 0;
  }
}

const std::vector<DataType>& types() {
  static const std::vector<DataType> all = {DataType::int8,    DataType::uint8,  DataType::int32,   DataType::uint32,
                                            DataType::int64,   DataType::uint64, DataType::float16, DataType::bfloat16,
                                            DataType::float32, DataType::float64};
  return all;
}

const std::vector<ReduceOp>& reductions() {
  static const std::vector<ReduceOp> all = {ReduceOp::sum,     ReduceOp::product, ReduceOp::min,   ReduceOp::max,
                                            ReduceOp::average, ReduceOp::bitAnd,  ReduceOp::bitOr, ReduceOp::bitXor};
  return all;
}

bool parse(const std::string& name, Op& op) {
  for (const OpTraits& traits : operations()) {
    if (name != traits.name) continue;
    op = traits.op;
    return true;
  }
  return false;
}

bool parse(const std::string& name, DataType& type) {
  const std::string plain = name == "half" || name == "fp16"     ? "float16"
                            : name == "bf16"                     ? "bfloat16"
                            : name == "float" || name == "fp32"  ? "float32"
                            : name == "double" || name == "fp64" ? "float64"
                                                                 : name;
  for (DataType candidate : types()) {
    if (plain != nameOf(candidate)) continue;
    type = candidate;
    return true;
  }
  return false;
}

bool parse(const std::string& name, ReduceOp& reduction) {
  const std::string plain = name == "prod" ? "product" : name == "avg" ? "average" : name;
  for (ReduceOp candidate : reductions()) {
    if (plain != nameOf(candidate)) continue;
    reduction = candidate;
    return true;
  }
  return false;
}

}  // namespace symccl::bench
