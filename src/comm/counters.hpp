// What a communicator has done. One writer (the driver of the lane), any readers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "collectives/plan.hpp"
#include "symccl/communicator.hpp"

namespace symccl {

class Counters {
 public:
  void record(Kind kind, std::uint64_t bytes, const Plan& plan, const Traffic& traffic) {
    Row& row = rows_[static_cast<std::size_t>(kind)];
    add(row.calls, 1);
    add(row.bytes, bytes);
    add(row.loaded, traffic.loaded);
    add(row.stored, traffic.stored);
    row.algorithm.store(plan.algorithm->name, std::memory_order_relaxed);
    switch (plan.algorithm->path) {
      case Path::none:
      case Path::inlined:
        add(row.inlined, 1);
        break;
      case Path::eager:
        add(row.eager, 1);
        break;
      case Path::zeroCopy:
        add(row.zeroCopy, 1);
        break;
      case Path::staged:
        add(row.staged, 1);
        add(sendPrivate_, plan.sendPrivate ? 1 : 0);
        add(recvPrivate_, plan.recvPrivate ? 1 : 0);
        break;
    }
  }
  void report(CommunicatorReport& into) const {
    for (std::size_t kind = 1; kind < rows_.size(); ++kind) {
      const Row& row = rows_[kind];
      OperationCounters counters;
      counters.calls = get(row.calls);
      counters.bytes = get(row.bytes);
      counters.inlined = get(row.inlined);
      counters.eager = get(row.eager);
      counters.zeroCopy = get(row.zeroCopy);
      counters.staged = get(row.staged);
      counters.loadedBytes = get(row.loaded);
      counters.storedBytes = get(row.stored);
      if (const char* name = row.algorithm.load(std::memory_order_relaxed)) counters.algorithm = name;
      into.operations.emplace_back(nameOf(static_cast<Kind>(kind)), counters);
    }
    into.stagedSendPrivate = get(sendPrivate_);
    into.stagedRecvPrivate = get(recvPrivate_);
  }

 private:
  using Count = std::atomic<std::uint64_t>;
  struct Row {
    Count calls{0}, bytes{0}, inlined{0}, eager{0}, zeroCopy{0}, staged{0}, loaded{0}, stored{0};
    std::atomic<const char*> algorithm{nullptr};
  };
  static void add(Count& count, std::uint64_t amount) { count.store(get(count) + amount, std::memory_order_relaxed); }
  static std::uint64_t get(const Count& count) { return count.load(std::memory_order_relaxed); }

  std::array<Row, static_cast<std::size_t>(Kind::scatterV) + 1> rows_;
  Count sendPrivate_{0}, recvPrivate_{0};
};

}  // namespace symccl
