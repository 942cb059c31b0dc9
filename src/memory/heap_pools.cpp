#include "memory/heap_pools.hpp"

#include <algorithm>

#include "base/checks.hpp"
#include "base/host.hpp"
#include "base/log.hpp"
#include "memory/granules.hpp"
#include "memory/heap.hpp"

namespace symccl {

HeapPools::HeapPools(Heap& heap) : heap_(heap), owners_(new std::atomic<PoolState*>[heap.bytes() / kGranule]()) {}

PoolState& HeapPools::open() {
  const std::lock_guard lock(mutex_);
  return *states_.emplace_back(std::make_unique<PoolState>());
}

void HeapPools::setPool(PoolState& state, std::weak_ptr<Pool> pool) {
  const std::lock_guard lock(mutex_);
  state.pool = std::move(pool);
}

void HeapPools::close(PoolState& state) {
  if (heap_.inherited()) return;
  Segments idle;
  {
    const std::lock_guard lock(mutex_);
    state.closed = true;
    for (const auto segment : state.cache.segments()) {
      for (SegmentListener* listener : state.listeners) listener->segmentRemoved(heap_, segment.offset, segment.bytes);
    }
    state.listeners.clear();
    idle = collectIdle(state);
    eraseIfDone(state);
  }
  giveBack(idle);
}

Result<void*> HeapPools::allocate(PoolState& state, std::size_t bytes) {
  if (heap_.inherited()) {
    return Error(Code::forked,
                 text("this pool belongs to the parent of this forked process: its memory can be used here, "
                      "but not allocated from; make a new pool in this process"));
  }
  if (bytes == 0) return invalid("an allocation of 0 bytes; accepted: 1 byte or more");
  if (bytes > heap_.bytes()) {  // rounding could overflow; the heap says what is wrong
    const Result<std::size_t> tooLarge = heap_.reserve(bytes, Backing::sparse);
    return tooLarge.error();
  }
  const std::size_t block = BlockCache::blockBytes(bytes);
  {
    const std::lock_guard lock(mutex_);
    if (const auto offset = take(state, block)) return heap_.base() + *offset;
  }
  const Result<BlockCache::Segment> segment = reserveSegment(state, block);
  if (!segment) return segment.error();

  const std::lock_guard lock(mutex_);
  state.cache.add(*segment, block);
  totals_.segments.add(1);
  totals_.segmentBytes.add(segment->bytes);
  setOwner(*segment, &state);
  for (SegmentListener* listener : state.listeners) listener->segmentAdded(heap_, segment->offset, segment->bytes);
  return heap_.base() + *take(state, block);
}

std::optional<std::size_t> HeapPools::take(PoolState& state, std::size_t block) {
  const std::size_t before = state.cache.bytesInUse();
  const auto offset = state.cache.take(block);
  if (offset) {
    totals_.blocks.add(1);
    totals_.blockBytes.add(state.cache.bytesInUse() - before);
  }
  return offset;
}

// Cached segments stand in nobody's way: where memory is short they go back first, this pool's before the others'.
Result<BlockCache::Segment> HeapPools::reserveSegment(PoolState& state, std::size_t block) {
  const std::size_t usual = BlockCache::segmentBytes(block), least = roundUp(block, kGranule);
  const auto reserve = [&](std::size_t bytes) { return heap_.reserve(bytes, Backing::reserved); };
  const auto isShort = [](const Result<std::size_t>& got) { return !got && got.error().code() == Code::memory; };

  std::size_t bytes = usual;
  Result<std::size_t> offset = reserve(bytes);
  if (isShort(offset) && trim(state) > 0) offset = reserve(bytes);
  if (isShort(offset) && trimOthers(state) > 0) offset = reserve(bytes);
  if (isShort(offset) && least < usual) offset = reserve(bytes = least);
  if (!offset) return offset.error();
  return BlockCache::Segment{*offset, bytes};
}

void HeapPools::free(void* address) {
  if (!address || heap_.inherited()) return;
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(address) - heap_.base());
  Segments idle;
  bool known = false;
  {
    const std::lock_guard lock(mutex_);
    PoolState* state = owners_[offset / kGranule].load(std::memory_order_relaxed);
    const std::size_t bytes = state ? state->cache.give(offset) : 0;
    known = bytes > 0;
    if (known) {
      totals_.blocks.remove(1);
      totals_.blockBytes.remove(bytes);
    }
    if (known && state->closed) {
      idle = collectIdle(*state);
      eraseIfDone(*state);
    }
  }
  if (!known) log(LogLevel::warn, "POOL", -1, "free of ", address, ", where no block in use starts; freed twice?");
  giveBack(idle);
}

std::shared_ptr<Pool> HeapPools::poolOf(const void* address) {
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(address) - heap_.base());
  const auto& owner = owners_[offset / kGranule];
  if (heap_.inherited()) {  // nobody changes the parent's books in this process
    const PoolState* state = owner.load(std::memory_order_acquire);
    return state ? state->pool.lock() : nullptr;
  }
  const std::lock_guard lock(mutex_);
  const PoolState* state = owner.load(std::memory_order_relaxed);
  return state ? state->pool.lock() : nullptr;
}

std::size_t HeapPools::trim(PoolState& state) {
  if (heap_.inherited()) return 0;
  Segments idle;
  {
    const std::lock_guard lock(mutex_);
    idle = collectIdle(state);
  }
  return giveBack(idle);
}

std::size_t HeapPools::trimOthers(PoolState& state) {
  Segments idle;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& other : states_) {
      if (other.get() == &state) continue;
      const Segments more = collectIdle(*other);
      idle.insert(idle.end(), more.begin(), more.end());
    }
  }
  return giveBack(idle);
}

std::vector<SegmentReport> HeapPools::snapshot(PoolState& state) {
  std::vector<SegmentReport> reports;
  if (heap_.inherited()) return reports;
  const std::lock_guard lock(mutex_);
  for (const auto segment : state.cache.segments()) {
    SegmentReport& report = reports.emplace_back(SegmentReport{heap_.base() + segment.offset, segment.bytes, {}});
    for (const auto& block : state.cache.blocks(segment.offset)) {
      report.blocks.push_back({block.offset - segment.offset, block.bytes, block.inUse});
    }
  }
  return reports;
}

std::size_t HeapPools::bytesInUse(PoolState& state) {
  if (heap_.inherited()) return 0;
  const std::lock_guard lock(mutex_);
  return state.cache.bytesInUse();
}

std::size_t HeapPools::bytesReserved(PoolState& state) {
  if (heap_.inherited()) return 0;
  const std::lock_guard lock(mutex_);
  return state.cache.bytesReserved();
}

PoolTotals HeapPools::totals() {
  if (heap_.inherited()) return {};
  const std::lock_guard lock(mutex_);
  return totals_;
}

void HeapPools::resetPeaks() {
  if (heap_.inherited()) return;
  const std::lock_guard lock(mutex_);
  for (Tally* tally : {&totals_.blocks, &totals_.blockBytes, &totals_.segments, &totals_.segmentBytes}) {
    tally->peak = tally->current;
  }
}

bool HeapPools::attach(PoolState& state, SegmentListener& listener) {
  if (heap_.inherited()) return false;
  const std::lock_guard lock(mutex_);
  auto& listeners = state.listeners;
  if (std::find(listeners.begin(), listeners.end(), &listener) != listeners.end()) return false;
  listeners.push_back(&listener);
  for (const auto segment : state.cache.segments()) listener.segmentAdded(heap_, segment.offset, segment.bytes);
  return true;
}

bool HeapPools::detach(PoolState& state, SegmentListener& listener) {
  if (heap_.inherited()) return false;
  const std::lock_guard lock(mutex_);
  auto& listeners = state.listeners;
  const auto at = std::find(listeners.begin(), listeners.end(), &listener);
  if (at == listeners.end()) return false;
  for (const auto segment : state.cache.segments()) listener.segmentRemoved(heap_, segment.offset, segment.bytes);
  listeners.erase(at);
  return true;
}

// Under the lock: from here on nothing leads to these segments, so whoever holds the result may give them back.
HeapPools::Segments HeapPools::collectIdle(PoolState& state) {
  Segments idle = state.cache.removeIdle();
  for (const auto segment : idle) {
    for (SegmentListener* listener : state.listeners) listener->segmentRemoved(heap_, segment.offset, segment.bytes);
    setOwner(segment, nullptr);
    totals_.segments.remove(1);
    totals_.segmentBytes.remove(segment.bytes);
  }
  return idle;
}

std::size_t HeapPools::giveBack(const Segments& segments) {
  std::size_t bytes = 0;
  for (const auto segment : segments) {
    heap_.release(segment.offset);
    bytes += segment.bytes;
  }
  return bytes;
}

void HeapPools::setOwner(BlockCache::Segment segment, PoolState* owner) {
  const UnitRange granules = unitsOf(segment.offset, segment.bytes, kGranule);
  for (std::size_t i = 0; i < granules.count; ++i) {
    owners_[granules.first + i].store(owner, std::memory_order_release);
  }
}

void HeapPools::eraseIfDone(PoolState& state) {
  if (!state.closed || state.cache.bytesReserved() > 0) return;
  std::erase_if(states_, [&](const auto& owned) { return owned.get() == &state; });
}

}  // namespace symccl
