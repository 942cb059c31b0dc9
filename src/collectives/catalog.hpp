// All algorithms, with what each needs.
#pragma once

#include <span>

#include "collectives/algorithm.hpp"

namespace symccl {

/// In the order in which plan() prefers them at equal cost. Static: addresses stay valid.
std::span<const Algorithm> catalog();

}  // namespace symccl
