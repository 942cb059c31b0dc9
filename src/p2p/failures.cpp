#include "p2p/failures.hpp"

#include <atomic>

#include "base/checks.hpp"

namespace symccl {

namespace {

std::string nameOf(const OpenMessage& message) {
  if (message.number == 0) return "point-to-point records";
  const bool send = message.message.way == Message::Way::send;
  const int peer = message.message.peer;
  const int tag = message.message.tag;
  return text(send ? "send to " : "recv from ", peer == kAnySource ? "any rank" : text("rank ", peer), " (",
              tag == kAnyTag ? "any tag" : text("tag ", tag), ", ", message.message.bytes, " B)");
}

}  // namespace

bool Failures::lost(int member) const {
  return member != group_.rank() && (group_.gone(member) || errorOf(member) != 0);
}

bool Failures::clean(const OpenMessage& message, int peer) {
  // Data first, then the words: a sender sets its error before its buffer is used for something else.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (group_.failed()) return false;
  WaitContext& context = group_.pointToPoint();
  for (int member = 0; member < group_.size(); ++member) {
    const ErrorWords& words = group_.area(member).front().collective.errors;
    const std::uint64_t error = words.error.read();
    if (error == 0 || !context.counts(context, member, peer, error, words.operation.get())) continue;
    context.culprit = member;
    stops(message, WaitEnd::memberError);
    return false;
  }
  if (!lost(peer)) return true;
  loses(message, peer);
  return false;
}

void Failures::loses(const OpenMessage& message, int member) {
  group_.pointToPoint().culprit = member;
  stops(message, errorOf(member) != 0 ? WaitEnd::memberError : WaitEnd::gone);
}

void Failures::stops(const OpenMessage& message, WaitEnd end) {
  const std::string name = nameOf(message);
  const Error ignored = group_.failedWait(end, group_.pointToPoint(), {name.c_str(), message.number}, {});
  static_cast<void>(ignored);
}

void Failures::expires(const OpenMessage& message) {
  std::vector<int> missing;
  for (int member = 0; member < group_.size(); ++member) {
    if (message.needs == member || (message.needs == kAnySource && member != group_.rank())) missing.push_back(member);
  }
  const std::string name = nameOf(message);
  const Doing doing{name.c_str(), message.number};
  const Error ignored = group_.failedWait(WaitEnd::deadline, group_.pointToPoint(), doing, missing);
  static_cast<void>(ignored);
}

void Failures::truncates(const OpenMessage& receive, int source, std::uint64_t tag, std::uint64_t bytes) {
  const bool longer = bytes > receive.message.bytes;
  refuses(receive, Error(Code::truncate,
                         text("rank ", source, " sent ", bytes, " B with tag ", tag, ", but the receive takes ",
                              longer && !receive.message.exact ? "at most " : "exactly ", receive.message.bytes, " B"),
                         source));
}

void Failures::refuses(const OpenMessage& message, const Error& error) {
  const std::string name = nameOf(message);
  const Error ignored =
      group_.fail(error.in(group_.describe(Doing{name.c_str(), message.number})), error.rank(), message.number);
  static_cast<void>(ignored);
}

void Failures::corrupts(int peer, const std::string& what) {
  const Error ignored =
      group_.fail(Error(Code::corrupt,
                        text("point-to-point on communicator '", group_.name(), "' (rank ", group_.rank(), " of ",
                             group_.size(), "): rank ", peer, " published ", what),
                        peer),
                  peer, 0);
  static_cast<void>(ignored);
}

}  // namespace symccl
