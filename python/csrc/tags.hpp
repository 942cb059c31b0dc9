// Which tags of point-to-point messages belong to whom.
#pragma once

#include <limits>

namespace symccl::pytorch {

inline constexpr int kMonitoredBarrierTag = std::numeric_limits<int>::max();
inline constexpr int kLastUserTag = kMonitoredBarrierTag - 1;

}  // namespace symccl::pytorch
