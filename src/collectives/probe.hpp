// Measures the constants of the cost model.
#pragma once

#include "collectives/cost_model.hpp"

namespace symccl {

/// This host's costs, measured on the first call in this process, which takes up to 30 ms; assumedCosts(), or a part of
/// them, where no second CPU could be had in that time. Threads may call it at once.
const CostModel& measuredCosts();

}  // namespace symccl
