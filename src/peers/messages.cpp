#include <algorithm>

#include "base/checks.hpp"
#include "peers/links_state.hpp"

namespace symccl {

Status Links::post(Peer& peer, const std::string& topic, const Bytes& message) {
  State& state = *state_;
  if (Status status = state.usable(); !status) return status;
  if (topic.size() > frames::kMostTopicBytes || message.size() > frames::kMostMessageBytes) {
    return invalid("a message between processes has a topic of at most ", frames::kMostTopicBytes,
                   " bytes and at most ", frames::kMostMessageBytes, " bytes, not ", topic.size(), " and ",
                   message.size());
  }
  const std::lock_guard lock(state.mutex);
  State::Link* link = state.find(peer.entry().process);
  if (!link) return internalError("a peer without a link");
  if (peer.gone()) return state.goneError(*link);
  if (!peer.self()) return state.enqueue(*link, frames::encode(frames::MessageFrame{topic, message}), -1);
  if (link->messages.size() >= kMostMessages) {
    return Error(Code::system, text(kMostMessages, " messages of this process to itself wait to be collected"));
  }
  link->messages.push_back({topic, message});
  state.changed.notify_all();
  return {};
}

Result<Bytes> Links::collect(Peer& peer, const std::string& topic, Deadline deadline,
                             const std::function<Status()>& interrupted) {
  State& state = *state_;
  if (Status status = state.usable(); !status) return status.error();
  std::unique_lock lock(state.mutex);
  State::Link* link = state.find(peer.entry().process);
  if (!link) return internalError("a peer without a link");
  for (;;) {
    const auto at = std::find_if(link->messages.begin(), link->messages.end(),
                                 [&](const frames::MessageFrame& one) { return one.topic == topic; });
    if (at != link->messages.end()) {
      Bytes message = std::move(at->message);
      const bool wasFull = link->messages.size() >= kMostMessages;
      link->messages.erase(at);
      if (wasFull && !peer.self()) state.wakeSentinel();  // which has stopped reading
      return message;
    }
    if (peer.gone()) return state.goneError(*link);
    const Status waited = state.waitForChange(lock, deadline, interrupted, peer.entry_, peer.pidHere_,
                                              "it sent nothing about '" + topic + '\'');
    if (!waited) return waited.error();
  }
}

}  // namespace symccl
