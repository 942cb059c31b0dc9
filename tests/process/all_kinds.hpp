// Every kind of collective once, each element of each result compared with a reference.
#pragma once

#include <cstddef>
#include <memory>

#include "symccl/communicator.hpp"

namespace symccl::test {

/// Runs every kind on buffers of `pool` (null: private ones), the root being rank `root`, and where a kind can work in
/// place also so. `count`: elements per rank or per pair of ranks; v kinds vary it, down to 0.
/// Buffers stand `shift` bytes off their alignment, guard bytes beside them. `rankOrder`: sums are rounded in that
/// order.
void checkAllKinds(Communicator& communicator, const std::shared_ptr<Pool>& pool, std::size_t count, int root = 0,
                   std::size_t shift = 0, bool rankOrder = true);

}  // namespace symccl::test
