#include "collectives/store_tuner.hpp"

#include <algorithm>

namespace symccl {

namespace {

constexpr unsigned kTryOther = 32, kTrySlower = 128;

Stores other(Stores stores) { return stores == Stores::streaming ? Stores::ordinary : Stores::streaming; }

}  // namespace

Stores StoreTuner::choose(Kind kind, std::size_t bytes) {
  Class& sizes = classOf(kind, bytes);
  const auto [ordinary, streaming] = sizes.nanoseconds;
  Stores best = bytes >= streamFrom_ ? Stores::streaming : Stores::ordinary;
  unsigned every = kTryOther;
  if (ordinary != 0 && streaming != 0) {
    const int handicap = bytes < kLarge ? handicap_ : kHandicap;
    best = streaming * (100 + handicap) < ordinary * 100 ? Stores::streaming : Stores::ordinary;
    const auto [less, more] = std::minmax(ordinary, streaming);
    if (more > less + less / 2) every = kTrySlower;
  }
  const bool tries = ++sizes.turn % every == 0 || sizes.turn == 2 || sizes.turn == 4;
  return tries ? other(best) : best;
}

void StoreTuner::took(Kind kind, std::size_t bytes, Stores stores, std::chrono::nanoseconds time) {
  std::int64_t& known = classOf(kind, bytes).nanoseconds[static_cast<std::size_t>(stores)];
  const std::int64_t now = std::max<std::int64_t>(time.count(), 1);
  // Whatever disturbs makes it longer: shorter times count at once, longer ones by and by.
  if (known == 0 || now < known) {
    known = now;
  } else {
    known += (std::min(now, 2 * known) - known) / 4;
  }
}

}  // namespace symccl
