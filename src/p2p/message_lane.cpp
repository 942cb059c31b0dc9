#include "p2p/message_lane.hpp"

#include <cstddef>
#include <optional>

#include "base/checks.hpp"
#include "p2p/lane.hpp"

namespace symccl {

namespace {

class SharedLane final : public MessageLane {
 public:
  SharedLane(Group& group, const SegmentSet& registered)
      : group_(group), registered_(registered), lane_(std::make_shared<Lane>(group)) {}
  ~SharedLane() override {
    lane_->stop(
        Error(Code::destroyed, text("the point-to-point lane of communicator '", group_.name(), "' has ended")));
  }

  std::vector<std::shared_ptr<detail::RequestState>> start(std::span<const Message> messages,
                                                           Deadline deadline) override;
  void stop(const Status& status) override { lane_->stop(status.error()); }
  MessageCounters counters() const override { return lane_->counters(); }

 private:
  std::optional<Error> refusal(const Message& message) const;
  std::uint64_t pin(const Message& message) const;

  Group& group_;
  const SegmentSet& registered_;
  // Requests refer to it weakly, and a thread that waits for one may hold it for a moment longer than this object
  // lives.
  const std::shared_ptr<Lane> lane_;
};

std::vector<std::shared_ptr<detail::RequestState>> SharedLane::start(std::span<const Message> messages,
                                                                     Deadline deadline) {
  std::vector<std::shared_ptr<detail::RequestState>> requests;
  std::vector<OpenMessage> open;
  requests.reserve(messages.size());
  open.reserve(messages.size());
  for (const Message& message : messages) {
    requests.push_back(std::make_shared<detail::RequestState>(lane_));
    if (const std::optional<Error> error = refusal(message)) {
      requests.back()->finish(*error);
      continue;
    }
    OpenMessage& added = open.emplace_back();
    added.message = message;
    added.request = requests.back();
    added.deadline = deadline;
    added.location = pin(message);
  }
  // A callback may destroy this object.
  if (const std::shared_ptr<Lane> lane = lane_; !open.empty()) lane->start(std::move(open));
  return requests;
}

std::optional<Error> SharedLane::refusal(const Message& message) const {
  const bool send = message.way == Message::Way::send;
  const char* what = send ? "send" : "recv";
  const int lowestPeer = send ? 0 : kAnySource;
  const int lowestTag = send ? 0 : kAnyTag;
  if (message.peer < lowestPeer || message.peer >= group_.size()) {
    return invalid(what, send ? " to" : " from", " rank ", message.peer, ": communicator '", group_.name(),
                   "' has the ranks 0 to ", group_.size() - 1, send ? "" : " (-1: any source)");
  }
  if (message.tag < lowestTag) {
    return invalid(what, " with tag ", message.tag, ": a tag is 0 or more", send ? "" : " (-1: any tag)");
  }
  if (message.data == nullptr && message.bytes > 0) return invalid(what, " of ", message.bytes, " B at a null pointer");
  return std::nullopt;
}

// The heap offset of a buffer in a registered segment, which is pinned from now on; else kPrivate. Inline messages need
// none.
std::uint64_t SharedLane::pin(const Message& message) const {
  if (message.bytes <= kInlineMessage) return kPrivate;
  Heap& heap = group_.heap();
  const auto offset = reinterpret_cast<std::uintptr_t>(message.data) - reinterpret_cast<std::uintptr_t>(heap.base());
  const bool inHeap = offset < heap.bytes() && message.bytes <= heap.bytes() - offset;
  if (!inHeap) return kPrivate;
  // Pin first, then ask: whoever unregisters clears the bits first and then looks for pins.
  heap.pin(offset, message.bytes);
  if (registered_.contains(offset, message.bytes)) return offset;
  heap.unpin(offset, message.bytes);
  return kPrivate;
}

}  // namespace

std::unique_ptr<MessageLane> MessageLane::create(Group& group, const SegmentSet& registered) {
  return std::make_unique<SharedLane>(group, registered);
}

}  // namespace symccl
