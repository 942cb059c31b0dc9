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

}  // namespace symccl::bench
