// Which CPU a rank runs on.
#pragma once

#include <sched.h>

namespace symccl::bench {

/// The CPUs that this process might use when it was started; of use before and after bindRank().
const cpu_set_t& cpusAtStart();

/// Keeps this process on the `rank`-th of those CPUs. False, with nothing done, where there are fewer than `ranks`.
bool bindRank(int rank, int ranks);

}  // namespace symccl::bench
