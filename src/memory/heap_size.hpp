// How large a heap this process can have.
#pragma once

#include <cstddef>
#include <string>

#include "symccl/result.hpp"

namespace symccl {

/// A heap smaller than this is refused.
inline constexpr std::size_t kHeapLeast = std::size_t{64} << 20;

/// What bounds the heap. Bytes; SIZE_MAX: no limit.
struct HeapLimits {
  std::size_t asked = 0;         ///< SYMCCL_HEAP_SIZE
  std::size_t addressSpace = 0;  ///< left of RLIMIT_AS
  std::size_t fileSize = 0;      ///< RLIMIT_FSIZE: passing it is a signal that kills
  int ranks = 1;                 ///< processes of this host, as far as the launcher tells: each maps the heaps of all
};
HeapLimits heapLimits();

struct HeapSize {
  std::size_t bytes;
  std::string raise;  ///< what makes the heap larger, for people, as in "SYMCCL_HEAP_SIZE"
};
/// As much of what is asked as fits, in granules. Half of a limited address space is left to the rest of the program;
/// the other half is shared out to the heaps of all ranks. Code::memory, with the limit, below kHeapLeast.
Result<HeapSize> fitHeap(const HeapLimits& limits);

}  // namespace symccl
