// The command line.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "symccl_bench/task.hpp"

namespace symccl::bench {

struct Options {
  std::string compareBefore, compareAfter;  ///< both set: compare these files, measure nothing
  std::string plotRows;                     ///< set: draw the rows of this file into plotFile, measure nothing
  bool torch = false;                       ///< measure torch.distributed instead of the C++ interface
  bool async = false;                       ///< torch: start operations, then wait for them
  std::vector<Op> ops;                      ///< what to measure: the product of these five
  std::vector<DataType> types;
  std::vector<ReduceOp> reductions;
  std::vector<int> roots;          ///< -1: every rank in turn
  std::vector<std::size_t> sizes;  ///< bytes of the whole array, rising
  int ranks = 0;                   ///< 0: the launcher's, else 2
  int iterations = 20, warmup = 5, rounds = 5;
  bool check = true;
  int registration = 2;  ///< -R: 0 private buffers, 1 or 2 registered
  bool reuseBuffers = false;
  bool inPlace = false;
  std::vector<std::string> peers;
  bool sweepAlgorithms = false;
  bool bind = true;    ///< each rank to a CPU of its own, where there are enough and we start them
  bool bound = false;  ///< whether this was done
  std::string python;  ///< of the peers that run in torch
  std::string format = "table";
  std::string jsonFile, csvFile, plotFile;  ///< "-": standard output
  int faultRank = -1;                       ///< for tests: this rank spoils one byte of each output
};

/// What main() does after parsing.
struct Parsed {
  bool run = false;  ///< else exit with `code`
  int code = 0;
  Options options;
};

/// Parses and validates; prints help, version or what is wrong.
Parsed parseOptions(int argc, char** argv);

inline constexpr int kWrongData = 1, kWrongUsage = 2, kFailed = 3;

}  // namespace symccl::bench
