// One row: a task, measured for every library in turns, with the machine's state before and after.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "symccl_bench/engine.hpp"
#include "symccl_bench/machine.hpp"
#include "symccl_bench/options.hpp"
#include "symccl_bench/peers.hpp"
#include "symccl_bench/statistics.hpp"
#include "symccl_bench/sweep.hpp"

namespace symccl::bench {

/// What --sweep-algorithms adds: each library is an algorithm then.
struct Swept {
  double predictedUs = 0;  ///< by the cost model
  bool bySelf = false;     ///< the library may choose it unasked
  bool best = false;       ///< the fastest of those
};

/// Times of one library in one row.
struct Measured {
  std::string name, version;
  std::string absent;  ///< why there are none
  Spread timeUs;
  double bestUs = 0, p99Us = 0;
  std::uint64_t wrong = 0;
  Spread ratio;                        ///< of its time to the first library's, by round; the first one's is 1
  double ratioLow = 0, ratioHigh = 0;  ///< the interval in which the median of these ratios lies (medianInterval())
  std::vector<std::pair<std::string, Spread>> moreUs;  ///< Series of BlockResult, in microseconds
  std::string path, algorithm;                         ///< how the last call's data travelled; not of peers
  Swept swept;
};

struct Row {
  Task task;
  std::vector<Measured> libraries;  ///< the one that is measured first, then its peers
  MachineState before, after;
  bool regimeChanged = false;  ///< the line hand-off changed by a factor of 2, also when the row was repeated
};

/// Measures rows. Every rank constructs it and calls run() with the same tasks; rank 0 gets the results.
class Bench {
 public:
  Bench(Area& area, Store& store, const Options& options, std::shared_ptr<Communicator> world, std::size_t mostBytes);
  ~Bench();
  Row run(const Task& task);

 private:
  struct Library;
  struct Buffers;
  struct Samples;
  void addForced(const std::shared_ptr<Engine>& ours, Communicator& world, Store& store);
  void addLibraries(Store& store, std::shared_ptr<Communicator> world);
  void addPeer(const std::string& name, const std::string& build);
  Row attempt(const Task& task);
  BlockResult runHere(Library& library, const Task& task, const Block& block);
  BlockResult turn(Library& library, const Task& task, const Block& block);

  Area& area_;
  const Options& options_;
  Machine machine_;
  std::shared_ptr<Pool> pool_;
  std::unique_ptr<Sweep> sweep_;  ///< null: peers or nothing beside the library
  std::vector<Library> libraries_;
};

}  // namespace symccl::bench
