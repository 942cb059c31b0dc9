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
  sendRecv,  ///< every rank sends to the next one and receives from the one before
  barrier,
};

/// What holds for an operation whatever its size.
struct OpTraits {
  Op op;
  const char* name;
  bool reduces;
  bool rooted;
  bool perRank;  ///< the whole array is ranks x count elements
  bool inPlace;  ///< it can run in place
};
const std::vector<OpTraits>& operations();
const OpTraits& traitsOf(Op op);

struct Task {
  Op op = Op::allReduce;
  DataType type = DataType::float32;
  ReduceOp reduction = ReduceOp::sum;
  int root = 0;
  std::size_t count = 0;  ///< elements, as the operation counts them: of one rank's block where `perRank`
  int ranks = 1;
  bool inPlace = false;

  std::size_t elementBytes() const { return sizeOf(type); }
  /// Bytes of the whole array: S of algbw = S / t.
  std::size_t bytes() const;
  std::size_t sendElements() const;
  std::size_t recvElements() const;
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
