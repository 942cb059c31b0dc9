// Rows as people and programs read them.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "symccl_bench/measure.hpp"

namespace symccl::bench {

/// What holds for the whole run.
struct Run {
  int ranks = 0;
  std::string launcher;
  const Options* options = nullptr;
  double firstCommunicatorUs = 0;  ///< making the first communicator, with heaps and links; the slowest rank's
};

/// Writes rows in one format, each as soon as it is there where the format allows it.
class Reporter {
 public:
  virtual ~Reporter() = default;
  virtual void begin(const Run&) {}
  /// `inPlace`: the same task in place; null where it was not measured.
  virtual void row(const Row& row, const Row* inPlace) = 0;
  virtual void end() {}
};

/// `format` as in --format, "svg", or "sweep" for the table of --sweep-algorithms; writes to `out`, which stays open.
std::unique_ptr<Reporter> makeReporter(const std::string& format, std::FILE* out);
std::unique_ptr<Reporter> makeTableReporter(std::FILE* out);
std::unique_ptr<Reporter> makeJsonReporter(std::FILE* out);
std::unique_ptr<Reporter> makePlotReporter(std::FILE* out);
std::unique_ptr<Reporter> makeSweepReporter(std::FILE* out);

/// GB/s, 10^9 bytes; 0 where there is no time or no data.
double algBandwidth(const Row& row);
double busBandwidth(const Row& row);
double memBandwidth(const Row& row);
/// memBandwidth() of the row over that of the wall, whose copies move 2 N bytes a rank; 0 where there is no wall.
double wallShare(const Row& row);
/// The row's time in walls: how many times as long as one streaming copy of N bytes by every rank.
double walls(const Row& row);
/// Wall before and after, averaged.
double wallUs(const Row& row);

/// The first line of a table: ranks, buffers, iterations.
void describeRun(std::FILE* out, const Run& run);

/// The processor's name, for a report's head.
std::string processorName();

}  // namespace symccl::bench
