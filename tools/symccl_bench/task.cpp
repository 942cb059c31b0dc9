#include "symccl_bench/task.hpp"

namespace symccl::bench {

const std::vector<OpTraits>& operations() {
  static const std::vector<OpTraits> all = {
      {Op::allReduce, "all_reduce", true, false, false, true},
      {Op::reduceScatter, "reduce_scatter", true, false, true, true},
      {Op::allGather, "all_gather", false, false, true, true},
      {Op::allToAll, "all_to_all", false, false, true, true},
      {Op::broadcast, "broadcast", false, true, false, false},
      {Op::reduce, "reduce", true, true, false, true},
      {Op::gather, "gather", false, true, true, false},
      {Op::scatter, "scatter", false, true, true, false},
      {Op::sendRecv, "sendrecv", false, false, false, false},
      {Op::barrier, "barrier", false, false, false, false},
  };
  return all;
}

const OpTraits& traitsOf(Op op) { return operations()[static_cast<std::size_t>(op)]; }

std::size_t Task::bytes() const {
  if (op == Op::barrier) return 0;
  return count * elementBytes() * (traitsOf(op).perRank ? static_cast<std::size_t>(ranks) : 1);
}

std::size_t Task::sendElements() const {
  switch (op) {
    case Op::barrier:
    case Op::broadcast:  // its one buffer counts as the output
      return 0;
    case Op::reduceScatter:
    case Op::allToAll:
    case Op::scatter:
      return count * static_cast<std::size_t>(ranks);
    default:
      return count;
  }
}

std::size_t Task::recvElements() const {
  switch (op) {
    case Op::barrier:
      return 0;
    case Op::allGather:
    case Op::allToAll:
    case Op::gather:
      return count * static_cast<std::size_t>(ranks);
    default:
      return count;
  }
}

double Task::busFactor() const {
  const double n = ranks;
  switch (op) {
    case Op::allReduce:
      return 2 * (n - 1) / n;
    case Op::reduceScatter:
    case Op::allGather:
    case Op::allToAll:
    case Op::gather:
    case Op::scatter:
      return (n - 1) / n;
    default:
      return 1;
  }
}

double Task::leastTraffic() const {
  const double n = ranks, whole = static_cast<double>(bytes());
  switch (op) {
    case Op::allReduce:
    case Op::allGather:
    case Op::allToAll:
    case Op::sendRecv:
      return 2 * whole * n;
    case Op::reduceScatter:
    case Op::reduce:
      return (whole + whole / n) * n;
    case Op::broadcast:
      return 2 * whole * (n - 1);
    case Op::gather:
    case Op::scatter:
      return 2 * whole;
    case Op::barrier:
      break;
  }
  return 0;
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
