// Where heaps stand, so that an address means the same in every process.
#pragma once

#include <cstddef>

#include "symccl/result.hpp"

namespace symccl {

/// Device ordinals are 0..kDevices-1.
inline constexpr int kDevices = 64;

/// The address at which the heap of `ordinal` should stand in every process. Slots lie below position-independent
/// executables and are free in a plain process and under AddressSanitizer; ThreadSanitizer has slots of its own.
std::byte* windowAddress(int ordinal);

/// Maps the first `bytes` of a memfd, readable and writable, at the window of `ordinal` if that range is free, else
/// anywhere at a whole granule. Left out of core dumps, which would allocate every page. Code::memory if the address
/// space is too small for it, Code::system else.
Result<std::byte*> mapAtWindow(int descriptor, int ordinal, std::size_t bytes);

}  // namespace symccl
