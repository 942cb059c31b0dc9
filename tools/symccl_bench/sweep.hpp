// --sweep-algorithms: each algorithm that can run, forced in turns, beside the one that the library takes by itself.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/algorithm.hpp"
#include "symccl_bench/engine.hpp"

namespace symccl::bench {

struct Measured;
struct Row;

/// The library's kind of an operation; nothing where it has no algorithms.
std::optional<Kind> kindOf(Op op);

/// The algorithms of a run's situations. Every rank makes the same calls.
class Sweep {
 public:
  /// Collective. `registered`: buffers are.
  Sweep(Area& area, bool registered);

  /// An engine on a communicator of its own, a part of `world`.
  struct Forced {
    std::string name;  ///< as the option `algorithm` has it
    std::shared_ptr<Engine> engine;
    std::shared_ptr<Communicator> communicator;
  };
  /// Collective: one for each algorithm that some of `ops` has and that can be asked for. Each supports the tasks in
  /// which it can run and in which `automatic` has not just taken the same algorithm by itself.
  std::vector<Forced> forced(const std::vector<Op>& ops, Communicator& world, Store& store,
                             const std::shared_ptr<Engine>& automatic) const;

  /// Fills in Measured::swept, on rank 0. Throws Failure where another algorithm ran than the one that was forced.
  void judge(Row& row) const;

 private:
  class ForcedEngine;
  Situation situationOf(const Task& task) const;

  bool registered_;
  int cpus_;  ///< that the ranks share, as the library counts them
};

/// Measured over predicted time; 0 where nothing was predicted.
double overPrediction(const Measured& measured);

/// At how many rows the chosen algorithm was as fast as the best, of those that had a choice.
class SweepVerdict {
 public:
  void add(const Row& row);
  int within() const { return within_; }
  int rows() const { return rows_; }
  std::string text() const;

 private:
  int within_ = 0, rows_ = 0;
};

}  // namespace symccl::bench
