// The tables of all instruction sets, and the same functions as in kernels.hpp on a table of one's choice (for tests).
#pragma once

#include <span>
#include <string_view>

#include "kernels/kernels.hpp"
#include "kernels/table.hpp"

namespace symccl {

/// The tables that this processor can run, the best first. `portable` is always the last.
std::span<const KernelTable* const> kernelTables();

/// The table for `isa` as in SYMCCL_ISA: the best of those not above it; "auto" and unknown names stand for the best.
const KernelTable& chooseKernels(std::string_view isa);

void copyWith(const KernelTable& kernels, std::span<void* const> destinations, const void* source, std::size_t bytes,
              Stores stores);
void reduceWith(const KernelTable& kernels, const Reduction& reduction);

}  // namespace symccl
