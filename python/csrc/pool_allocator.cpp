#include "pool_allocator.hpp"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <optional>
#include <unordered_map>

namespace symccl::pytorch {
namespace {

constexpr int kDevices = 64;
const c10::Device kCpu(c10::DeviceType::CPU);

thread_local PoolUse* t_use = nullptr;

/// The blocks whose allocation a profiler was told, so that it is told of their end too.
class ReportedBlocks {
 public:
  void allocated(void* address, std::size_t bytes, c10::Device owner) {
    {
      std::lock_guard lock(mutex_);
      blocks_.insert_or_assign(address, Block{bytes, owner});
      count_.store(blocks_.size(), std::memory_order_relaxed);
    }
    c10::reportMemoryUsageToProfiler(address, static_cast<std::int64_t>(bytes), 0, 0, owner);
  }

  void freed(void* address) {
    if (count_.load(std::memory_order_relaxed) == 0) return;
    std::optional<Block> block;
    {
      std::lock_guard lock(mutex_);
      const auto entry = blocks_.find(address);
      if (entry == blocks_.end()) return;
      block = entry->second;
      blocks_.erase(entry);
      count_.store(blocks_.size(), std::memory_order_relaxed);
    }
    c10::reportMemoryUsageToProfiler(address, -static_cast<std::int64_t>(block->bytes), 0, 0, block->owner);
  }

 private:
  struct Block {
    std::size_t bytes;
    c10::Device owner;
  };
  std::mutex mutex_;
  std::unordered_map<void*, Block> blocks_;
  std::atomic<std::size_t> count_{0};
};

ReportedBlocks& reportedBlocks() {
  static auto* blocks = new ReportedBlocks;
  return *blocks;
}

/// The allocator that PyTorch had before the first PoolUse.
c10::Allocator* g_previous = nullptr;

// The one deleter of every pointer that the allocators here hand out.
void deleteAny(void* address) {
  if (address == nullptr) return;
  reportedBlocks().freed(address);
  if (!Pool::freeAnywhere(address) && g_previous != nullptr) g_previous->raw_deallocate(address);
}

/// In front of PyTorch's CPU allocator; leaked, because storages outlive everything.
class RoutingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    return t_use == nullptr ? g_previous->allocate(bytes) : allocateFrom(t_use->pool(), bytes, kCpu, t_use->owner());
  }
  c10::DeleterFnPtr raw_deleter() const override { return &deleteAny; }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override { return data.get() == data.get_context(); }
  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }
};

void installRouting() {
  static std::once_flag once;
  std::call_once(once, [] {
    g_previous = c10::GetAllocator(c10::DeviceType::CPU);
    c10::SetAllocator(c10::DeviceType::CPU, new RoutingAllocator, 1);
  });
}

}  // namespace

c10::DataPtr allocateFrom(Pool& pool, std::size_t bytes, c10::Device device, c10::Device owner) {
  if (bytes == 0) return {nullptr, nullptr, &deleteAny, device};
  const Result<void*> block = pool.allocate(bytes);
  TORCH_CHECK_WITH(OutOfMemoryError, bool(block), "symccl: ", block ? "" : block.error().message());
  if (c10::memoryProfilingEnabled()) reportedBlocks().allocated(*block, bytes, owner);
  // Context and data must be the same: oneDNN uses raw_allocate().
  return {*block, *block, &deleteAny, device};
}

c10::DeleterFnPtr poolDeleter() { return &deleteAny; }

std::shared_ptr<PoolAllocator> PoolAllocator::ofDevice(int ordinal) {
  static auto* mutex = new std::mutex;
  static auto* allocators = new std::array<std::shared_ptr<PoolAllocator>, kDevices>;
  if (ordinal < 0) ordinal = defaultDevice();
  TORCH_CHECK_VALUE(ordinal < kDevices, "symccl: device ", ordinal, " is outside 0..", kDevices - 1);
  std::lock_guard lock(*mutex);
  auto& allocator = (*allocators)[ordinal];
  if (allocator == nullptr) allocator = std::make_shared<PoolAllocator>(ordinal);
  return allocator;
}

c10::DataPtr PoolAllocator::allocate(std::size_t bytes) {
  std::call_once(made_, [this] {
    auto pool = Pool::create(ordinal_);
    TORCH_CHECK_WITH(OutOfMemoryError, bool(pool), "symccl: ", pool ? "" : pool.error().message());
    pool_ = std::move(*pool);
  });
  return allocateFrom(*pool_, bytes, kCpu, kCpu);
}

c10::DeleterFnPtr PoolAllocator::raw_deleter() const { return &deleteAny; }

PoolUse::PoolUse(Pool& pool, c10::Device owner) : pool_(pool), owner_(owner), outer_(t_use) {
  installRouting();
  t_use = this;
}

PoolUse::~PoolUse() { t_use = outer_; }

PoolUse* PoolUse::current() { return t_use; }

}  // namespace symccl::pytorch
