// What a communicator consists of; kept alive by its handle and by whatever thread is inside.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "comm/collective_lane.hpp"
#include "memory/segment_listener.hpp"
#include "memory/segment_set.hpp"
#include "p2p/message_lane.hpp"
#include "protocol/group.hpp"

namespace symccl {

/// The group, its two lanes, and the segments registered with it. Thread-safe.
class Core : public SegmentListener, public Driver, public std::enable_shared_from_this<Core> {
 public:
  static std::shared_ptr<Core> make(std::unique_ptr<Group> group, const PlanRules& rules);
  /// Nobody is inside any more: closes this rank's end and retires its area.
  ~Core() override;

  Group& group() { return *group_; }
  const PlanRules& rules() const { return rules_; }
  CollectiveLane& collectives() { return *collectives_; }
  MessageLane& messages() { return *messages_; }
  const SegmentSet& registered() const { return registered_; }

  Status registerPool(const std::shared_ptr<Pool>& pool);
  Status deregisterPool(const std::shared_ptr<Pool>& pool);

  /// Ends this end: open operations get Code::destroyed; returns when no other thread is inside.
  void shutdown();

  void segmentAdded(Heap& heap, std::size_t offset, std::size_t bytes) override;
  void segmentRemoved(Heap& heap, std::size_t offset, std::size_t bytes) override;
  void drive(const detail::RequestState& request, Deadline deadline) override {
    collectives_->drive(request, deadline);
  }

  std::uint64_t registeredSegments() const { return registeredSegments_.load(std::memory_order_relaxed); }
  std::uint64_t registeredBytes() const { return registered_.granules() * kGranule; }

 private:
  Core(std::unique_ptr<Group> group, const PlanRules& rules);
  void watchDeaths();
  Status protectStaging();

  const std::unique_ptr<Group> group_;
  const PlanRules rules_;
  SegmentSet registered_;
  std::atomic<std::uint64_t> registeredSegments_{0};
  std::unique_ptr<CollectiveLane> collectives_;
  std::unique_ptr<MessageLane> messages_;
  int watch_ = -1;
  std::mutex poolsMutex_;
  std::vector<std::shared_ptr<Pool>> pools_;  // guarded by poolsMutex_
};

}  // namespace symccl
