#include "pinned.hpp"

#include <c10/core/CPUAllocator.h>

#include <mutex>
#include <unordered_map>

namespace symccl::npu {
namespace {

struct Blocks {
  std::mutex mutex;
  std::unordered_map<const void*, c10::DataPtr> owned;  // by address
};
Blocks& blocks() {
  static auto& instance = *new Blocks;
  return instance;
}

void release(void* address) {
  c10::DataPtr memory;  // freed without the lock
  const std::lock_guard lock(blocks().mutex);
  const auto found = blocks().owned.find(address);
  if (found == blocks().owned.end()) return;
  memory = std::move(found->second);
  blocks().owned.erase(found);
}

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr memory = c10::GetCPUAllocator()->allocate(bytes);
    void* address = memory.get();
    const c10::Device device = memory.device();
    if (address != nullptr) {
      const std::lock_guard lock(blocks().mutex);
      blocks().owned.insert_or_assign(address, std::move(memory));
    }
    return {address, address, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }
};

}  // namespace

c10::Allocator* pinnedAllocator() {
  static auto* allocator = new PinnedAllocator;
  return allocator;
}

bool isPinned(const void* address) {
  const std::lock_guard lock(blocks().mutex);
  return blocks().owned.contains(address);
}

}  // namespace symccl::npu
