// The open messages of a lane: whom they need, until when, and how they end.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "p2p/message_lane.hpp"
#include "p2p/record.hpp"
#include "protocol/group.hpp"
#include "protocol/request.hpp"

namespace symccl {

/// A send or a receive that has been issued and has not ended.
struct OpenMessage {
  Message message;
  std::shared_ptr<detail::RequestState> request;
  Deadline deadline = Deadline::never();
  std::uint64_t number = 0;           ///< in order of issue on this lane
  std::uint64_t location = kPrivate;  ///< heap offset of a registered buffer, whose segment is pinned
  int needs = kAnySource;             ///< the member without which it cannot end
};

/// A message that has ended; its request has not been told.
struct EndedMessage {
  std::shared_ptr<detail::RequestState> request;
  Status status;
  int source;
  std::size_t bytes;
};

/// Counts them, and ends each exactly once. One thread at a time; counters() may be called from any.
class Ledger {
 public:
  explicit Ledger(Group& group) : group_(group), needed_(static_cast<std::size_t>(group.size()) + 1) {}

  void opened(OpenMessage& message);
  /// A receive has found its message.
  void matched(OpenMessage& receive, int source);
  /// The ends.
  void sent(OpenMessage& send, Form form);
  void received(OpenMessage& receive, std::size_t bytes);
  void fail(OpenMessage& message, const Error& error);
  /// Ends a message that was never opened.
  static void refuse(Group& group, OpenMessage& message, const Error& error);

  std::size_t open() const { return open_; }
  /// Those that have ended since takeEnded(). Telling a request may run a callback that uses or destroys the lane, so
  /// whoever drives does that when the engine is handed back.
  bool anyEnded() const { return !ended_.empty(); }
  std::vector<EndedMessage> takeEnded() { return std::exchange(ended_, {}); }
  /// Open messages that need `member` (kAnySource: receives from any source that have found no message).
  int needed(int member) const { return needed_[static_cast<std::size_t>(member + 1)]; }
  /// Whether an open message needs somebody else.
  bool needsOthers() const { return open_ != static_cast<std::size_t>(needed(group_.rank())); }

  /// No open message's deadline is earlier.
  Deadline earliest() const { return earliest_; }
  void setEarliest(Deadline deadline) { earliest_ = deadline; }

  MessageCounters counters() const;

 private:
  using Counter = std::atomic<std::uint64_t>;
  static void add(Counter& counter, std::uint64_t amount) {
    counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);  // one writer
  }
  Counter& counterOf(Form form);
  void end(OpenMessage& message, Status status, std::size_t bytes);
  static void unpin(Group& group, const OpenMessage& message);

  Group& group_;
  std::vector<int> needed_;  // by member + 1
  std::size_t open_ = 0;
  std::vector<EndedMessage> ended_;
  Deadline earliest_ = Deadline::never();
  Counter sends_{0}, recvs_{0}, sentBytes_{0}, receivedBytes_{0};
  Counter inlined_{0}, eager_{0}, located_{0}, onDemand_{0};
};

}  // namespace symccl
