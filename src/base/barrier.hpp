// The asymmetric barrier: a fence on one side that makes fences on the other side needless.
#pragma once

namespace symccl {

/// Whether this process could register for membarrier(GLOBAL_EXPEDITED); tried once. False too where
/// SYMCCL_MEMBARRIER=0 forces the fallback and under ThreadSanitizer, which does not know membarrier.
bool membarrierRegistered();

/// Orders this thread's earlier stores before its later loads with respect to every registered process: as if each of
/// their running threads had executed a full fence. With `fences` (a member of the group is not registered): a plain
/// full fence, which is enough only because the members then fence too before they look at the bells.
void asymmetricBarrier(bool fences);

}  // namespace symccl
