// The sending side: chooses the form of each message, answers the receivers' records, fills pipes.
#pragma once

#include <array>
#include <deque>
#include <unordered_map>
#include <vector>

#include "p2p/failures.hpp"
#include "p2p/ledger.hpp"
#include "p2p/outbox.hpp"
#include "p2p/record.hpp"

namespace symccl {

/// One thread at a time. Never waits. An error makes the group fail; the caller looks at that.
class Sender {
 public:
  Sender(Group& group, Ledger& ledger, Outbox& outbox, Failures& failures);

  void start(OpenMessage message);
  /// The next SEND to `peer` is in the ring.
  void entered(int peer);
  /// Records of `peer`.
  void acknowledged(int peer, const Record& ack);
  void cleared(int peer, const Record& clear);
  /// Gives free pipes to cleared messages and fills free halves. True if something moved.
  bool fill();

  /// A message of this rank to itself: what its receiver copies from. Null: there is none with this id.
  const std::byte* ownMessage(std::uint64_t id) const;

  template <class Visit>
  void each(const Visit& visit) {
    for (Line& line : lines_) {
      for (auto& [id, outgoing] : line.outgoing) {
        if (!outgoing.ended) visit(outgoing.open);
      }
    }
  }
  void clear();

 private:
  /// A message that the receiver has not ACKed.
  struct Outgoing {
    OpenMessage open;
    Form form = Form::inlined;
    bool ended = false;    // complete for the user
    bool cleared = false;  // onDemand: a pipe may be taken
    int eagerSlot = -1;
    std::size_t filled = 0;  // onDemand: bytes that went into the pipe
    int halves = 0;          // onDemand: halves that are not ACKed
  };
  /// What goes to one peer.
  struct Line {
    std::uint64_t sends = 0;    // ids given
    std::uint64_t entered = 0;  // of which in the ring
    int inlined = 0;            // un-ACKed, of Form::inlined
    unsigned freeEagerSlots = (1u << kEagerMessages) - 1;
    bool eagerBacked = false;
    std::unordered_map<std::uint64_t, Outgoing> outgoing;  // by id
  };
  struct Pipe {
    Outgoing* user = nullptr;
    std::uint64_t id = 0;
    int next = 0;  // half
    bool backed = false;
  };

  Line& line(int peer) { return lines_[static_cast<std::size_t>(peer)]; }
  Form shape(Outgoing& outgoing, Line& to, Record& send);
  int takeEagerSlot(Line& to, int peer);
  void end(Outgoing& outgoing);
  void acknowledge(int peer, std::uint64_t id);
  void halfCopied(Line& from, std::uint64_t id, Outgoing& outgoing);
  bool openPipe(Pipe& pipe);
  bool fill(Pipe& pipe);

  Group& group_;
  Ledger& ledger_;
  Outbox& outbox_;
  Failures& failures_;
  std::vector<Line> lines_;  // by peer
  std::array<Pipe, kPipes> pipes_{};
  struct Cleared {
    int peer;
    std::uint64_t id;
  };
  std::deque<Cleared> cleared_;  // wait for a pipe
};

}  // namespace symccl
