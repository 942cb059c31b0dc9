// What the code of one instruction set offers to the code that is common to all.
#pragma once

#include <cstddef>

#include "symccl/types.hpp"

namespace symccl {

/// Bytes of a cache line.
inline constexpr std::size_t kLine = 64;

/// A copy of bytes [begin, end) of `source`, whole lines, past the caches to the same place in every destination but
/// `source` itself. Every destination + begin is aligned to a line.
struct StreamJob {
  void* const* destinations;
  std::size_t destinationCount;
  const void* source;
  std::size_t begin;
  std::size_t end;
};

/// A reduction of `bytes` bytes, whole steps, of every source from `sourceOffset` on; see Reduction.
struct ReduceJob {
  const void* const* sources;
  std::size_t sourceCount;
  std::size_t sourceOffset;
  void* const* destinations;
  std::size_t destinationCount;
  std::size_t destinationOffset;
  std::size_t bytes;
  const double* factors;  ///< premulSum: one per source
  bool streaming;         ///< past the caches; every destination + destinationOffset is aligned to a line
  bool prefetchSources;   ///< ask for the sources ahead
  bool ownDestinations;   ///< ask ahead to own the destinations' lines, which another core may hold
};
using ReduceFunction = void (*)(const ReduceJob& job);

/// The functions of one instruction set. They leave streaming stores unordered: the caller fences.
struct KernelTable {
  const char* name;
  std::size_t stepBytes;  ///< of a reduction: at most kMaximalStep
  void (*streamLines)(const StreamJob& job);
  void (*pad)(char* step, const char* from, std::size_t bytes);  ///< less than a step, and zeros up to a whole one
  ReduceFunction reduce[kDataTypes][kReduceOps];                 ///< null where not reducible
};
inline constexpr std::size_t kMaximalStep = 256;

extern const KernelTable kPortableTable;
#if defined(__x86_64__)
extern const KernelTable kAvx2Table;
extern const KernelTable kAvx512Table;
#endif

}  // namespace symccl
