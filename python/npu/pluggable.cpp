#include "pluggable.hpp"

#include <c10/util/Exception.h>

#include <atomic>

#include "device.hpp"
#include "memory.hpp"

namespace symccl::npu {
namespace {

std::shared_ptr<PluggableAllocator>& place() {
  static auto& allocator = *new std::shared_ptr<PluggableAllocator>;
  return allocator;
}

}  // namespace

c10::DataPtr PluggableAllocator::take(const std::shared_ptr<PluggableAllocator>& allocator, std::size_t bytes,
                                      int ordinal) {
  struct Block {
    std::shared_ptr<PluggableAllocator> allocator;
    void* address;
    std::ptrdiff_t bytes;
    int ordinal;
    void* stream;
  };
  const c10::Device device(kNpu, static_cast<c10::DeviceIndex>(ordinal));
  if (bytes == 0) return {nullptr, device};
  const auto size = static_cast<std::ptrdiff_t>(bytes);
  void* stream = reinterpret_cast<void*>(currentStream(ordinal).id());
  void* address = allocator->allocate_(size, ordinal, stream);
  TORCH_CHECK_WITH(OutOfMemoryError, address != nullptr, "npu: the pluggable allocator returned no memory for ", bytes,
                   " bytes on npu:", ordinal);
  const auto release = [](void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    block->allocator->free_(block->address, block->bytes, block->ordinal, block->stream);
  };
  return {address, new Block{allocator, address, size, ordinal, stream}, release, device};
}

void changeAllocator(std::shared_ptr<PluggableAllocator> allocator) {
  TORCH_CHECK(place() == nullptr && poolsInUse().empty(), "Can't swap an already initialized allocator");
  place() = std::move(allocator);
}

const std::shared_ptr<PluggableAllocator>& changedAllocator() { return place(); }

}  // namespace symccl::npu
