#include "collectives/cost_model.hpp"

#include <algorithm>

#include "collectives/store_tuner.hpp"

namespace symccl {

namespace {

// Each further line that a barrier looks at, and a change of the rank that has the CPU.
constexpr std::int64_t kLinePicoseconds = 25'000;
constexpr std::int64_t kSwitchPicoseconds = 1'000'000;

std::uint64_t between(std::uint64_t low, std::uint64_t high, std::uint64_t part, std::uint64_t whole) {
  return low <= high ? low + (high - low) * part / whole : low - (low - high) * part / whole;
}

}  // namespace

CostModel::Rates CostModel::at(std::uint64_t bytes) const {
  if (bytes <= kSizes.front()) return rates.front();
  for (std::size_t i = 1; i < kSizes.size(); ++i) {
    if (bytes >= kSizes[i]) continue;
    const std::uint64_t part = bytes - kSizes[i - 1], whole = kSizes[i] - kSizes[i - 1];
    const auto line = [&](auto rate) { return between(rates[i - 1].*rate, rates[i].*rate, part, whole); };
    return {line(&Rates::copied), line(&Rates::pushed), line(&Rates::pulled), line(&Rates::read),
            line(&Rates::readPeer)};
  }
  return rates.back();
}

std::uint64_t CostModel::picoseconds(const Work& work, std::uint64_t bytes, int size, int cpus) const {
  const Rates rate = at(bytes);
  // 128 bits: a thousand ranks with a terabyte each.
  const auto time = [](std::int64_t amount, std::uint64_t each) {
    return static_cast<__int128>(amount) * static_cast<std::int64_t>(each);
  };
  const auto moved = (time(work.copied, rate.copied) + time(work.pushed, rate.pushed) + time(work.pulled, rate.pulled) +
                      time(work.read, rate.read) + time(work.readPeer, rate.readPeer)) /
                     1024;
  // Ranks that share a CPU work and wait one after the other.
  const int turns = (size + cpus - 1) / cpus;
  const std::int64_t changes = turns > 1 ? turns * kSwitchPicoseconds : 0;
  const auto pair = static_cast<std::int64_t>(handoff) + changes;
  const std::int64_t waits = work.barriers * (pair + (size - 2) * kLinePicoseconds) + work.handoffs * pair;
  return static_cast<std::uint64_t>(std::max<__int128>(moved * turns + waits, 0));
}

namespace {

// Where lines that another core has written are slow to take over, as on AMD's processors, streaming wins early; on
// Intel's not before data leaves the caches.
std::uint64_t assumedStreaming() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_is("amd")) return StoreTuner::kLeast;
#endif
  return StoreTuner::kLarge;
}

}  // namespace

CostModel assumedCosts() {
  return {150'000,
          {{{28'000, 50'000, 62'000, 8'000, 50'000},
            {36'000, 51'000, 66'000, 8'000, 51'000},
            {80'000, 80'000, 95'000, 40'000, 52'000}}},
          assumedStreaming()};
}

}  // namespace symccl
