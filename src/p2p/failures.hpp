// What can go wrong with a message, each with its sentence. Every one becomes the communicator's sticky error.
#pragma once

#include <string>

#include "p2p/ledger.hpp"
#include "protocol/group.hpp"

namespace symccl {

/// The functions make the error sticky; the lane then ends whatever is open. One thread at a time.
class Failures {
 public:
  explicit Failures(Group& group) : group_(group) {}

  /// Whether `member` can be waited for no more: its process is gone or it has an error (destruction included). What it
  /// published before is visible to the reads that follow.
  bool lost(int member) const;
  /// A short look while much is copied from or for `peer`: false if the communicator has failed, or fails now because
  /// of what the members' error words say. What was read of the peer's memory before a false is void.
  bool clean(const OpenMessage& message, int peer);

  /// `message` needs `member`, which is lost.
  void loses(const OpenMessage& message, int member);
  void expires(const OpenMessage& message);
  /// A message of `bytes` for a receive that takes fewer, or exactly another number.
  void truncates(const OpenMessage& receive, int source, std::uint64_t tag, std::uint64_t bytes);
  void refuses(const OpenMessage& message, const Error& error);
  /// `peer` published what cannot be.
  void corrupts(int peer, const std::string& what);
  /// A wait that ended because of an error; `message` is one of those that were open, or has the number 0: there was
  /// none.
  void stops(const OpenMessage& message, WaitEnd end);

 private:
  std::uint64_t errorOf(int member) const { return group_.area(member).front().collective.errors.error.read(); }

  Group& group_;
};

}  // namespace symccl
