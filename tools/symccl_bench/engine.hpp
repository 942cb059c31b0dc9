// What is measured inside the benchmark's own ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "symccl/communicator.hpp"
#include "symccl_bench/area.hpp"
#include "symccl_bench/task.hpp"

namespace symccl::bench {

/// One rank's end of a library. Every rank makes the same calls.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual bool supports(const Task& task) const = 0;
  /// Before a number of run()s: the task and its buffers.
  virtual void prepare(const Task& task, const void* send, void* recv) = 0;
  /// What is timed.
  virtual void run() = 0;
  /// After each run(), not timed: what is to be taken back.
  virtual void settle() {}
  /// How the last operation's data travelled, and by which algorithm; empty where the engine has only one way.
  virtual std::string path() const { return {}; }
  virtual std::string algorithm() const { return {}; }
};

/// The library itself, on `world`; communicators are made through `store`.
std::unique_ptr<Engine> makeSymcclEngine(std::shared_ptr<Communicator> world, Store& store);

/// Bytes of Area's extra memory that makeStagedEngine() needs.
std::size_t stagedSlotBytes(std::size_t mostBytes);
/// All-reduce as DeepSpeed, SGLang and vLLM do it on CPUs: copy in, reduce, copy out, through buffers that all ranks
/// map. Below 1 MiB each rank reduces everything, above it a slice, in chunks of 32 MiB; waits spin (and yield).
std::unique_ptr<Engine> makeStagedEngine(Area& area);

}  // namespace symccl::bench
