#include "comm/core.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "base/checks.hpp"
#include "base/environment.hpp"
#include "protocol/area_allocator.hpp"

namespace symccl {

Core::Core(std::unique_ptr<Group> group, const PlanRules& rules)
    : group_(std::move(group)),
      rules_(rules),
      registered_(group_->heap().bytes()),
      collectives_(std::make_unique<CollectiveLane>(*group_, registered_, rules_)),
      messages_(MessageLane::create(*group_, registered_)) {}

std::shared_ptr<Core> Core::make(std::unique_ptr<Group> group, const PlanRules& rules) {
  std::shared_ptr<Core> core(new Core(std::move(group), rules));
  core->collectives_->ownedBy(core);
  core->watchDeaths();
  if (environment().testStaging == "inaccessible") {
    if (Status status = core->protectStaging(); !status) (void)core->group_->fail(status.error(), -1, 0);
  }
  return core;
}

// The sentinel only wakes whoever sleeps here; waits look at the dead themselves.
void Core::watchDeaths() {
  const bool othersLive = [&] {
    for (int member = 0; member < group_->size(); ++member) {
      if (!group_->place(member).peer->self()) return true;
    }
    return false;
  }();
  if (!othersLive) return;
  Result<Links*> links = Links::instance();
  if (!links) return;
  watch_ = (*links)->watch([weak = weak_from_this()](Peer& peer) {
    const std::shared_ptr<Core> core = weak.lock();
    if (!core) return;
    for (int member = 0; member < core->group_->size(); ++member) {
      if (core->group_->place(member).peer == &peer) return core->group_->wakeOwn();
    }
  });
}

// A test's proof that zero-copy touches no staging: any access faults.
Status Core::protectStaging() {
  for (int member = 0; member < group_->size(); ++member) {
    const ControlArea& area = group_->area(member);
    if (::mprotect(area.base() + area.layout().staging, 3 * kStagingSlot, PROT_NONE) != 0)
      return systemError("mprotect of staging slots");
  }
  return {};
}

Core::~Core() {
  if (watch_ >= 0) {
    if (Result<Links*> links = Links::instance()) (*links)->unwatch(watch_);
  }
  messages_.reset();
  collectives_.reset();
  group_->close();
  std::vector<MemberPlace> members;
  for (int member = 0; member < group_->size(); ++member) members.push_back(group_->place(member));
  const std::size_t own = group_->place(group_->rank()).areaOffset;
  AreaAllocator::of(group_->heap()).retire(own, group_->epoch(), std::move(members));
}

void Core::shutdown() {
  std::vector<std::shared_ptr<Pool>> pools;
  {
    std::lock_guard lock(poolsMutex_);
    pools.swap(pools_);
  }
  for (const auto& pool : pools) detachListener(*pool, *this);
  group_->destroyed(collectives_->sequence());
  collectives_->stop();
  messages_->stop(group_->status());
}

Status Core::registerPool(const std::shared_ptr<Pool>& pool) {
  if (!pool) return invalid("register_mem_pool: no pool given");
  if (pool->ordinal() != group_->heap().ordinal()) {
    return invalid("register_mem_pool: the pool is of device ", pool->ordinal(), ", communicator '", group_->name(),
                   "' of device ", group_->heap().ordinal());
  }
  std::lock_guard lock(poolsMutex_);
  if (std::find(pools_.begin(), pools_.end(), pool) != pools_.end()) return {};
  pools_.push_back(pool);
  attachListener(*pool, *this);
  return {};
}

Status Core::deregisterPool(const std::shared_ptr<Pool>& pool) {
  std::lock_guard lock(poolsMutex_);
  const auto found = std::find(pools_.begin(), pools_.end(), pool);
  if (found == pools_.end()) return invalid("Trying to unregister a pool that was not previously registered");
  pools_.erase(found);
  detachListener(*pool, *this);
  return {};
}

void Core::segmentAdded(Heap&, std::size_t offset, std::size_t bytes) {
  registered_.add(offset, bytes);
  registeredSegments_.fetch_add(1, std::memory_order_relaxed);
}

void Core::segmentRemoved(Heap&, std::size_t offset, std::size_t bytes) {
  registered_.remove(offset, bytes);
  registeredSegments_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace symccl
