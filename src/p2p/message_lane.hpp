// The point-to-point lane of a communicator: sends and receives, matched at the receiver. docs/protocol.md, section 4.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "memory/segment_set.hpp"
#include "protocol/group.hpp"
#include "protocol/request.hpp"

namespace symccl {

/// What the lane did; read by reports.
struct MessageCounters {
  std::uint64_t sends = 0, recvs = 0, sentBytes = 0, receivedBytes = 0;
  std::uint64_t inlined = 0, eager = 0, located = 0, onDemand = 0;  ///< by the form of the sends
};

/// A state machine, never a blocking call inside: isend and irecv in any order, with tags in any order, complete. A
/// thread that waits for a request drives it; else the lane's worker (started on first need) does whenever a request is
/// open. Thread-safe.
class MessageLane {
 public:
  /// `group` and `registered` outlive the lane.
  static std::unique_ptr<MessageLane> create(Group& group, const SegmentSet& registered);
  virtual ~MessageLane() = default;

  /// Starts them all, as if at once. A refused argument (peer out of range, bad tag, null buffer with bytes, kAnyTag on
  /// a send) is in that request's status and breaks nothing.
  virtual std::vector<std::shared_ptr<detail::RequestState>> start(std::span<const Message> messages,
                                                                   Deadline deadline) = 0;
  /// Ends every open request with `status`'s error; later ones get it at once. When it returns, no thread is inside any
  /// more and none of this rank's memory is touched by this rank's lane.
  virtual void stop(const Status& status) = 0;
  virtual MessageCounters counters() const = 0;
};

}  // namespace symccl
