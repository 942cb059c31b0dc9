// Copies and reductions of one rank: the only code that touches every element.
#pragma once

#include <cstddef>
#include <span>

#include "symccl/types.hpp"

namespace symccl {

/// How results are stored. The same bits either way: a rank may choose for itself.
enum class Stores : unsigned char {
  ordinary,   ///< through the caches
  streaming,  ///< past the caches, but for short ranges; complete (fenced) when the function returns
};

/// Copies `bytes`; the ranges are equal or do not overlap. Any alignment.
void copy(void* destination, const void* source, std::size_t bytes, Stores stores);

/// Loads `source` once and stores it to every destination. A destination equal to `source` is skipped.
void copyToAll(std::span<void* const> destinations, const void* source, std::size_t bytes, Stores stores);

/// destinations[*][i] = finish(sources[0][i] op sources[1][i] op ...), in this order, for i in 0..count-1.
///
/// Every destination gets the same bits, and they depend on the sources' bits alone: not on count, alignment, stores,
/// instruction set, the thread's floating-point mode or how the range was cut into calls. Every NaN that comes out, of
/// one source too, is the positive quiet NaN without payload. A destination may be equal to a source, else they do not
/// overlap (all loads of an element precede its stores); then the stores are ordinary. Any alignment, also below the
/// element's size. average: finish divides by sources.size(). premulSum: source s is first multiplied by factors[s],
/// itself rounded to float32 (float64 for float64 and complex128), and the product rounded to `type`.
struct Reduction {
  DataType type;
  ReduceOp op;
  std::span<const void* const> sources;  ///< at least one
  std::span<void* const> destinations;   ///< at least one
  std::size_t count;
  const double* factors = nullptr;  ///< premulSum: one per source
  Stores stores = Stores::ordinary;
};
/// `reducible(type, op)` must hold.
void reduce(const Reduction& reduction);

/// The instruction set in use: "avx512", "avx2" or "portable". SYMCCL_ISA chooses a lower one.
const char* kernelIsa();

}  // namespace symccl
