// A user's own allocator for npu tensors, in place of the device's.
#pragma once

#include <c10/core/Allocator.h>

#include <memory>

namespace symccl::npu {

/// Two C functions, as torch_npu.npu.NPUPluggableAllocator takes them. What they return need not lie in a heap: groups
/// do not work on it in place.
class PluggableAllocator {
 public:
  using Allocate = void* (*)(std::ptrdiff_t bytes, int device, void* stream);
  using Free = void (*)(void* address, std::ptrdiff_t bytes, int device, void* stream);

  PluggableAllocator(Allocate allocate, Free free) : allocate_(allocate), free_(free) {}

  /// Throws c10::OutOfMemoryError if the user's function returns null. What lives keeps the allocator.
  static c10::DataPtr take(const std::shared_ptr<PluggableAllocator>& allocator, std::size_t bytes, int ordinal);

 private:
  const Allocate allocate_;
  const Free free_;
};

/// Takes all npu tensors of this process from `allocator` from now on; throws once there has been one.
void changeAllocator(std::shared_ptr<PluggableAllocator> allocator);
/// The allocator of changeAllocator(), or null.
const std::shared_ptr<PluggableAllocator>& changedAllocator();

}  // namespace symccl::npu
