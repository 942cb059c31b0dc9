// Order statistics of times.
#pragma once

#include <utility>
#include <vector>

namespace symccl::bench {

/// The value below which the share `q` (0..1) of `values` lies, interpolated; 0 for none.
double quantile(std::vector<double> values, double q);
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

/// Median with the range that eight in ten values lie in.
struct Spread {
  double median = 0, p10 = 0, p90 = 0;
};
Spread spreadOf(const std::vector<double>& values);

/// A range that holds the median of what `values` are samples of in at least 95 % of cases: order statistics, which
/// assume nothing of the distribution. For fewer than six values it is their range, which holds it less often.
std::pair<double, double> medianInterval(std::vector<double> values);

}  // namespace symccl::bench
