// What one row measures: an operation, its type, reduction, root and count.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "symccl/types.hpp"

namespace symccl::bench {

enum class Op : unsigned char {
  allReduce,
  reduceScatter,
  allGather,
  allToAll,
  broadcast,
  reduce,
  gather,
  scatter,
  allGatherV,  ///< the v kinds: blocks of different sizes, see Task::blockElements()
  reduceScatterV,
  allToAllV,
  gatherV,
  scatterV,
  sendRecv,  ///< every rank sends to the next one and receives from the one before
  barrier,
  communicator,    ///< making a communicator of all ranks
  ddpTransformer,  ///< a training step with DistributedDataParallel
  ddpConvolution,
};

/// What holds for an operation whatever its size.
struct OpTraits {
  Op op;
  const char* name;
  bool reduces;
  bool rooted;
  bool perRank;  ///< the whole array is ranks x count elements
  bool inPlace;  ///< it can run in place
  bool sized;    ///< it has sizes and types
};
const std::vector<OpTraits>& operations();
inline bool isTraining(Op op) { return op >= Op::ddpTransformer; }
const OpTraits& traitsOf(Op op);

struct Task {
  Op op = Op::allReduce;
  DataType type = DataType::float32;
  ReduceOp reduction = ReduceOp::sum;
  int root = 0;
  std::size_t count =
      0;  ///< elements, as the operation counts them: of one rank's block (v: on average) where `perRank`
  int ranks = 1;
  bool inPlace = false;

  std::size_t elementBytes() const { return sizeOf(type); }
  /// Bytes of the whole array: S of algbw = S / t.
  std::size_t bytes() const;
  /// Elements of the block that `from` has for `to`. Of a v kind they rise evenly with the rank whose block it is.
  std::size_t blockElements(int from, int to) const;
  /// Where that block begins in the send buffer of `from` and in the receive buffer of `to`.
  std::size_t sendOffset(int from, int to) const;
  std::size_t recvOffset(int from, int to) const;
  std::size_t sendElements(int rank) const;
  std::size_t recvElements(int rank) const;
  /// busbw = algbw x this (nccl-tests' definition).
  double busFactor() const;
  /// Bytes that all ranks together must load and store at least, each element once where it is used.
  double leastTraffic() const;
};

/// Names as the command line has them; nccl-tests' "half", "float", "double", "prod", "avg" are accepted too.
const std::vector<DataType>& types();
const std::vector<ReduceOp>& reductions();
bool parse(const std::string& name, Op& op);
bool parse(const std::string& name, DataType& type);
bool parse(const std::string& name, ReduceOp& reduction);

}  // namespace symccl::bench
