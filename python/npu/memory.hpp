// Where the memory of npu tensors comes from.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StorageImpl.h>

#include <utility>
#include <vector>

#include "device.hpp"
#include "pool_allocator.hpp"

namespace symccl::npu {

/// Memory of the device, from currentPool(). Throws c10::OutOfMemoryError.
c10::DataPtr allocateOn(int ordinal, std::size_t bytes);
/// The same on the current device: PyTorch's allocator for npu.
c10::Allocator* npuAllocator();

/// Has CPU kernels that run on this thread take their memory from currentPool(ordinal), so that what they make can
/// become an npu tensor without a copy.
class RoutedToDevice {
 public:
  explicit RoutedToDevice(int ordinal);

 private:
  const pytorch::PoolUse use_;
};

/// Makes a CPU storage one of the device: in place if its memory came from a pool, which then must be the device's,
/// else by a copy.
void moveToDevice(c10::StorageImpl& storage, int ordinal);

/// Gives cached segments of the devices' own pools back to the heaps.
void emptyCache();
c10::CachingDeviceAllocator::DeviceStats memoryStats(int ordinal);
/// The pools that npu tensors of any device have come from, as far as they live.
std::vector<std::shared_ptr<Pool>> poolsInUse();
/// Free and total bytes of the device's heap.
std::pair<std::size_t, std::size_t> memoryLeft(int ordinal);

}  // namespace symccl::npu
