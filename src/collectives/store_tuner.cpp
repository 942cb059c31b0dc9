#include "collectives/store_tuner.hpp"

#include <algorithm>

namespace symccl {

namespace {

constexpr unsigned kTryOther = 32;

Stores other(Stores stores) { return stores == Stores::streaming ? Stores::ordinary : Stores::streaming; }

}  // namespace

Stores StoreTuner::choose(std::size_t bytes) {
  Class& sizes = classOf(bytes);
  const auto [ordinary, streaming] = sizes.nanoseconds;
  Stores best = bytes >= streamFrom_ ? Stores::streaming : Stores::ordinary;
  if (ordinary != 0 && streaming != 0)
    best = streaming * (100 + handicap_) < ordinary * 100 ? Stores::streaming : Stores::ordinary;
  const bool tries = ++sizes.turn % kTryOther == 0 || sizes.turn == 2 || sizes.turn == 4;
  return tries ? other(best) : best;
}

void StoreTuner::took(std::size_t bytes, Stores stores, std::chrono::nanoseconds time) {
  std::int64_t& known = classOf(bytes).nanoseconds[static_cast<std::size_t>(stores)];
  const std::int64_t now = std::max<std::int64_t>(time.count(), 1);
  // Whatever disturbs makes it longer: shorter times count at once, longer ones by and by.
  if (known == 0 || now < known) {
    known = now;
  } else {
    known += (std::min(now, 2 * known) - known) / 4;
  }
}

}  // namespace symccl
