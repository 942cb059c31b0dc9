#include "symccl_bench/machine.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "symccl_bench/statistics.hpp"
#include "symccl_bench/stream_copy.hpp"

namespace symccl::bench {

namespace {

constexpr std::size_t kMostWallBytes = 64 << 20;
constexpr int kBatches = 15, kPasses = 100, kWallTimes = 5;

using Clock = std::chrono::steady_clock;

double nanoseconds(const std::function<void()>& work) {
  const Clock::time_point began = Clock::now();
  work();
  return std::chrono::duration<double, std::nano>(Clock::now() - began).count();
}

}  // namespace

Machine::Machine(Area& area, std::size_t mostBytes)
    : area_(area),
      source_(Mapping::ofPrivate(std::min(mostBytes, kMostWallBytes))),
      destination_(Mapping::ofPrivate(std::min(mostBytes, kMostWallBytes))) {}

MachineState Machine::measure(std::size_t bytes) {
  MachineState state;
  state.handOffNs = handOffNs();
  state.barrierUs = barrierUs();
  if (bytes > 0) {
    state.wallUs = wallUs(bytes, 1);
    state.bestWallUs = wallUs(bytes, 4);
  }
  return state;
}

double Machine::handOffNs() {
  if (area_.ranks() == 1) return 0;
  std::vector<double> batches;
  area_.barrier(Waiting::patient);
  if (area_.rank() < 2) {
    for (int batch = 0; batch < kBatches; ++batch) {
      const double time = nanoseconds([&] {
        for (int i = 0; i < kPasses; ++i) {
          ++passes_;
          if (area_.rank() == 1) await(area_.ball(0), passes_, Waiting::brisk);
          area_.ball(area_.rank()).store(passes_, std::memory_order_release);
          if (area_.rank() == 0) await(area_.ball(1), passes_, Waiting::brisk);
        }
      });
      batches.push_back(time / kPasses / 2);
    }
  }
  return area_.broadcast(median(batches), Waiting::patient);
}

double Machine::barrierUs() {
  std::vector<double> batches;
  for (int batch = 0; batch < kBatches; ++batch) {
    const double time = nanoseconds([&] {
      for (int i = 0; i < kPasses; ++i) area_.barrier(Waiting::brisk);
    });
    batches.push_back(time / kPasses / 1000);
  }
  return median(area_.largest(batches));
}

double Machine::wallUs(std::size_t bytes, int streams) {
  const std::size_t part = std::min(bytes, source_.bytes());
  std::vector<double> times;
  for (int i = 0; i < kWallTimes; ++i) {
    area_.barrier(Waiting::brisk);
    times.push_back(nanoseconds([&] { streamCopy(destination_.data(), source_.data(), part, streams); }));
  }
  return median(area_.largest(times)) / 1000 * (static_cast<double>(bytes) / static_cast<double>(part));
}

}  // namespace symccl::bench
