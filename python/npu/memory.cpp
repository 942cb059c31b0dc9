#include "memory.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "errors.hpp"
#include "pluggable.hpp"
#include "registration.hpp"

namespace symccl::npu {
namespace {

constexpr int kMostDevices = 64;

/// Never destroyed, because storages outlive everything; a forked child makes its own.
struct Pools {
  std::mutex mutex;
  std::array<std::atomic<std::shared_ptr<Pool>*>, kMostDevices> ofDevices{};  // for outside of PoolScopes
  std::vector<std::weak_ptr<Pool>> ofScopes;                                  // guarded by mutex
};
std::atomic<Pools*> g_pools{new Pools};
[[maybe_unused]] const int g_forks = pthread_atfork(nullptr, nullptr, [] { g_pools.store(new Pools); });

/// The innermost is the last.
thread_local std::vector<std::pair<const PoolScope*, std::shared_ptr<Pool>>> t_scopes;

const std::shared_ptr<Pool>& defaultPool(int ordinal) {
  Pools& pools = *g_pools.load(std::memory_order_acquire);
  auto& place = pools.ofDevices[ordinal];
  if (auto* made = place.load(std::memory_order_acquire)) return *made;
  const std::lock_guard lock(pools.mutex);
  if (auto* made = place.load(std::memory_order_acquire)) return *made;
  auto* pool = new std::shared_ptr<Pool>(pytorch::valueOf(Pool::create(ordinal)));
  place.store(pool, std::memory_order_release);
  return *pool;
}

void remember(const std::shared_ptr<Pool>& pool) {
  Pools& pools = *g_pools.load(std::memory_order_acquire);
  const std::lock_guard lock(pools.mutex);
  std::erase_if(pools.ofScopes, [&](const auto& known) { return known.expired() || known.lock() == pool; });
  pools.ofScopes.push_back(pool);
}

const std::shared_ptr<Pool>& poolInUse(int ordinal) {
  for (auto scope = t_scopes.rbegin(); scope != t_scopes.rend(); ++scope) {
    if (scope->second->ordinal() == ordinal) return scope->second;
  }
  return defaultPool(ordinal);
}

c10::Device deviceOf(int ordinal) { return {kNpu, static_cast<c10::DeviceIndex>(ordinal)}; }

/// Sums since the user reset them; the library's own never go back.
struct Baseline {
  std::mutex mutex;
  std::array<PoolTotals, kMostDevices> totals;
};
Baseline& baseline() {
  static auto& instance = *new Baseline;
  return instance;
}

void fill(c10::CachingAllocator::StatArray& to, const Tally& now, const Tally& base) {
  auto& all = to[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  all.current = static_cast<std::int64_t>(now.current);
  all.peak = static_cast<std::int64_t>(now.peak);
  all.allocated = static_cast<std::int64_t>(now.added - base.added);
  all.freed = static_cast<std::int64_t>((now.added - now.current) - (base.added - base.current));
}

class NpuAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override { return allocateOn(currentDevice(), bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return changedAllocator() ? nullptr : pytorch::poolDeleter(); }
  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override { npu::emptyCache(); }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}  // a Work holds the tensors that it uses
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex ordinal) override {
    return memoryStats(ordinal);
  }
  void resetAccumulatedStats(c10::DeviceIndex ordinal) override {
    const int device = resolveDevice(ordinal);
    const std::lock_guard lock(baseline().mutex);
    baseline().totals[device] = poolTotals(device);
  }
  void resetPeakStats(c10::DeviceIndex ordinal) override { resetPoolPeaks(resolveDevice(ordinal)); }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex ordinal) override { return memoryLeft(ordinal); }
};

}  // namespace

c10::DataPtr allocateOn(int ordinal, std::size_t bytes) {
  if (const auto& allocator = changedAllocator()) return PluggableAllocator::take(allocator, bytes, ordinal);
  const c10::Device device = deviceOf(ordinal);
  return pytorch::allocateFrom(*poolInUse(ordinal), bytes, device, device);
}

c10::Allocator* npuAllocator() {
  static auto* allocator = new NpuAllocator;
  return allocator;
}

void registerAllocator() { c10::SetAllocator(kNpu, npuAllocator()); }

// Whatever the reference leads to stays: the pool of a scope by the scope, the device's own for ever.
RoutedToDevice::RoutedToDevice(int ordinal) : use_(*poolInUse(ordinal), deviceOf(ordinal)) {}

void moveToDevice(c10::StorageImpl& storage, int ordinal) {
  c10::DataPtr& data = storage._mutable_data_ptr_no_checks();
  const bool inPool = data.get_deleter() == pytorch::poolDeleter();
  if (data.get() == nullptr || (inPool && !changedAllocator())) {
    data.unsafe_set_device(deviceOf(ordinal));
  } else {
    c10::DataPtr copy = allocateOn(ordinal, storage.nbytes());
    std::memcpy(copy.get(), data.get(), storage.nbytes());
    storage.set_data_ptr_noswap(std::move(copy));
  }
  storage.set_allocator(npuAllocator());
}

void emptyCache() {
  for (const auto& pool : g_pools.load()->ofDevices) {
    if (auto* made = pool.load(std::memory_order_acquire)) (*made)->trim();
  }
}

std::vector<std::shared_ptr<Pool>> poolsInUse() {
  Pools& pools = *g_pools.load();
  std::vector<std::shared_ptr<Pool>> found;
  for (const auto& pool : pools.ofDevices) {
    if (auto* made = pool.load(std::memory_order_acquire)) found.push_back(*made);
  }
  const std::lock_guard lock(pools.mutex);
  for (const auto& pool : pools.ofScopes) {
    if (auto alive = pool.lock()) found.push_back(std::move(alive));
  }
  return found;
}

c10::CachingDeviceAllocator::DeviceStats memoryStats(int ordinal) {
  const int device = resolveDevice(ordinal);
  TORCH_CHECK_NOT_IMPLEMENTED(!changedAllocator(), "npu: a pluggable allocator keeps no statistics");
  const PoolTotals now = poolTotals(device);
  PoolTotals base;
  {
    const std::lock_guard lock(baseline().mutex);
    base = baseline().totals[device];
  }
  c10::CachingDeviceAllocator::DeviceStats stats;
  for (auto* count : {&stats.allocation, &stats.active}) fill(*count, now.blocks, base.blocks);
  for (auto* bytes : {&stats.allocated_bytes, &stats.active_bytes, &stats.requested_bytes}) {
    fill(*bytes, now.blockBytes, base.blockBytes);
  }
  fill(stats.segment, now.segments, base.segments);
  fill(stats.reserved_bytes, now.segmentBytes, base.segmentBytes);
  return stats;
}

std::pair<std::size_t, std::size_t> memoryLeft(int ordinal) {
  const HeapReport heap = pytorch::valueOf(heapReport(resolveDevice(ordinal)));
  return {heap.bytes - heap.used, heap.bytes};
}

std::shared_ptr<Pool> currentPool(int ordinal) { return poolInUse(resolveDevice(ordinal)); }

void PoolScope::enter() {
  TORCH_CHECK(!entered_, "npu: this use of a MemPool has been entered already");
  pool_->checkOwned();
  remember(pool_->pool());
  t_scopes.emplace_back(this, pool_->pool());
  pool_->countUse(1);
  entered_ = true;
}

void PoolScope::exit() {
  TORCH_CHECK(entered_ && !t_scopes.empty() && t_scopes.back().first == this,
              "npu: use_mem_pool must be left on the thread that entered it, the innermost one first");
  t_scopes.pop_back();
  pool_->countUse(-1);
  entered_ = false;
}

// A scope that was never left (its generator was abandoned) stays the thread's, which keeps the pool.
PoolScope::~PoolScope() {
  if (entered_ && !t_scopes.empty() && t_scopes.back().first == this) exit();
}

}  // namespace symccl::npu
