// The pool as programs see it; the books are HeapPools'.

#include <atomic>

#include "base/checks.hpp"
#include "memory/heap.hpp"
#include "memory/heap_pools.hpp"
#include "memory/segment_listener.hpp"
#include "symccl/memory.hpp"

namespace symccl {
namespace {

std::uint64_t nextId() {
  static constinit std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

class PoolImpl final : public Pool {
 public:
  explicit PoolImpl(Heap& heap) : heap_(heap), id_(nextId()), state_(heap.pools().open()) {}
  ~PoolImpl() override { heap_.pools().close(state_); }
  PoolImpl(const PoolImpl&) = delete;
  PoolImpl& operator=(const PoolImpl&) = delete;

  Result<void*> allocate(std::size_t bytes) override { return heap_.pools().allocate(state_, bytes); }
  void free(void* address) override { freeAnywhere(address); }
  std::size_t trim() override { return heap_.pools().trim(state_); }
  std::uint64_t id() const override { return id_; }
  int ordinal() const override { return heap_.ordinal(); }
  std::vector<SegmentReport> snapshot() const override { return heap_.pools().snapshot(state_); }
  std::size_t bytesInUse() const override { return heap_.pools().bytesInUse(state_); }
  std::size_t bytesReserved() const override { return heap_.pools().bytesReserved(state_); }

  void announce() { heap_.pools().setPool(state_, weak_from_this()); }
  bool attach(SegmentListener& listener) { return heap_.pools().attach(state_, listener); }
  bool detach(SegmentListener& listener) { return heap_.pools().detach(state_, listener); }

 private:
  Heap& heap_;
  const std::uint64_t id_;
  PoolState& state_;
};

}  // namespace

Result<std::shared_ptr<Pool>> Pool::create(int ordinal) {
  Result<Heap*> heap = Heap::ofDevice(ordinal);
  if (!heap) return heap.error().in("creating a pool");
  auto pool = std::make_shared<PoolImpl>(**heap);
  pool->announce();
  return std::shared_ptr<Pool>(std::move(pool));
}

std::shared_ptr<Pool> Pool::find(const void* address) {
  Heap* heap = Heap::containing(address);
  return heap ? heap->pools().poolOf(address) : nullptr;
}

bool Pool::freeAnywhere(void* address) {
  Heap* heap = Heap::containing(address);
  if (!heap) return false;
  heap->pools().free(address);
  return true;
}

// create() is the only maker of pools, so each is a PoolImpl.
bool attachListener(Pool& pool, SegmentListener& listener) { return static_cast<PoolImpl&>(pool).attach(listener); }

bool detachListener(Pool& pool, SegmentListener& listener) { return static_cast<PoolImpl&>(pool).detach(listener); }

}  // namespace symccl
