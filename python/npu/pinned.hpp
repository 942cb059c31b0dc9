// Pinned memory: host memory that knows that it is.
#pragma once

#include <c10/core/Allocator.h>

namespace symccl::npu {

/// Memory of the CPU's allocator. On this device copies are as fast from anywhere, but scripts ask is_pinned().
c10::Allocator* pinnedAllocator();
/// Whether `address` is the start of memory of pinnedAllocator() that is in use.
bool isPinned(const void* address);

}  // namespace symccl::npu
