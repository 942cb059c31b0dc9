#include "symccl_bench/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace symccl::bench {

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - std::floor(place));
}

Spread spreadOf(const std::vector<double>& values) {
  return {quantile(values, 0.5), quantile(values, 0.1), quantile(values, 0.9)};
}

// The median lies below the k-th smallest of n values if fewer than k of them lie below it: a binomial probability.
std::pair<double, double> medianInterval(std::vector<double> values) {
  if (values.empty()) return {0, 0};
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  const double sure = 0.95;
  double probability = std::pow(0.5, static_cast<double>(n));  // of exactly k values below
  double tail = probability;                                   // of at most k
  std::size_t outside = 0;                                     // values left out at each end
  for (std::size_t k = 1; k < n / 2; ++k) {
    probability *= static_cast<double>(n - k + 1) / static_cast<double>(k);
    tail += probability;
    if (1 - 2 * tail < sure) break;
    outside = k;
  }
  return {values[outside], values[n - 1 - outside]};
}

}  // namespace symccl::bench
