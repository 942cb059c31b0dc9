// Measures the constants of the cost model.
#pragma once

#include "collectives/cost_model.hpp"

namespace symccl {

/// This host's costs, measured on the first call in this process, which takes up to 30 ms; assumedCosts() where it may
/// use one CPU only. Threads may call it at once.
const CostModel& measuredCosts();

}  // namespace symccl
