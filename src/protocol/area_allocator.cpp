#include "protocol/area_allocator.hpp"

#include <algorithm>
#include <bit>
#include <memory>

#include "base/fork.hpp"

namespace symccl {

AreaAllocator& AreaAllocator::of(Heap& heap) {
  // Leaked: communicators may be destroyed by static destructors.
  static auto& mutex = *new ForkSafeMutex;
  static auto& all = *new std::map<Heap*, std::unique_ptr<AreaAllocator>>;
  std::lock_guard lock(mutex);
  auto& allocator = all[&heap];
  if (!allocator) allocator.reset(new AreaAllocator(heap));
  return *allocator;
}

int AreaAllocator::sizeClass(int members) { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(members))); }

bool AreaAllocator::quiet(const Retired& area) {
  const int members = static_cast<int>(area.members.size());
  return std::all_of(area.members.begin(), area.members.end(), [&](const MemberPlace& member) {
    if (member.peer->gone().load(std::memory_order_acquire)) return true;
    const AreaFront& front = ControlArea(member.heapBase + member.areaOffset, members).front();
    return front.closed.read() == 1 || !front.header.shows(area.epoch);
  });
}

void AreaAllocator::sweep() {
  std::erase_if(limbo_, [&](const Retired& area) {
    if (!quiet(area)) return false;
    const int size = sizeClass(static_cast<int>(area.members.size()));
    heap_.discard(area.offset, bytesOf(size));
    free_[size].push_back(area.offset);
    return true;
  });
}

Result<std::size_t> AreaAllocator::take(int members) {
  std::lock_guard lock(mutex_);
  sweep();
  const int size = sizeClass(members);
  auto& unused = free_[size];
  std::size_t offset;
  if (unused.empty()) {
    Result<std::size_t> fresh = heap_.reserve(bytesOf(size), Backing::sparse);
    if (!fresh) return fresh.error().in("control area");
    offset = *fresh;
  } else {
    offset = unused.back();
    unused.pop_back();
  }
  if (Status status = heap_.back(offset, AreaLayout(members).staging); !status) {
    unused.push_back(offset);
    return status.error().in("control area");
  }
  return offset;
}

void AreaAllocator::giveBack(std::size_t offset, int members) {
  std::lock_guard lock(mutex_);
  const int size = sizeClass(members);
  heap_.discard(offset, bytesOf(size));
  free_[size].push_back(offset);
}

void AreaAllocator::retire(std::size_t offset, const Uuid& epoch, std::vector<MemberPlace> members) {
  std::lock_guard lock(mutex_);
  limbo_.push_back({offset, epoch, std::move(members)});
  sweep();
}

}  // namespace symccl
