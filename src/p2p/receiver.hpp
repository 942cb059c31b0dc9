// The receiving side: matches, copies out piece by piece, acknowledges.
#pragma once

#include <array>
#include <deque>
#include <unordered_map>
#include <vector>

#include "p2p/failures.hpp"
#include "p2p/ledger.hpp"
#include "p2p/matching.hpp"
#include "p2p/outbox.hpp"
#include "p2p/record.hpp"

namespace symccl {

class Sender;

/// One thread at a time. Never waits. An error makes the group fail; the caller looks at that.
class Receiver {
 public:
  Receiver(Group& group, Ledger& ledger, Outbox& outbox, Failures& failures, const Sender& sender);

  void start(OpenMessage receive);
  /// Records of `peer`.
  void arrived(int peer, const Record& send);
  void filled(int peer, const Record& data);
  /// Copies one piece of what is ready, of those in turn. True if there was one.
  bool copyPiece();
  /// Queues the ACKs that somebody waits for.
  void acknowledge();
  /// After records have entered the rings: ends the receives whose ACKs have.
  void finish();

  template <class Visit>
  void each(const Visit& visit) {
    posted_.each(visit);
    for (Line& line : lines_) {
      for (auto& [id, incoming] : line.incoming) visit(incoming.open);
    }
    for (Complete& complete : complete_) visit(complete.open);
  }
  void clear();

 private:
  /// A matched message whose bytes are not all here.
  struct Incoming {
    OpenMessage open;
    Form form = Form::located;
    std::size_t bytes = 0;
    std::size_t announced = 0;  // onDemand: bytes in the halves that were told
    std::size_t received = 0;
  };
  /// What comes from one peer.
  struct Line {
    std::uint64_t arrivals = 0;                            // ids seen
    std::unordered_map<std::uint64_t, Incoming> incoming;  // by id
    Record ack;                                            // collects ids
    bool ackUrgent = false;
  };
  /// A receive whose bytes are here and whose sender waits for the ACK. It ends when that is in the ring, so that a
  /// rank whose messages have all ended owes nobody anything and may leave.
  struct Complete {
    OpenMessage open;
    std::size_t bytes;
    std::uint64_t record;  // the count of the ACK among the records to the source; 0: not queued yet
  };
  /// Bytes that stand ready in the sender's memory.
  struct Ready {
    int source;
    std::uint64_t id;
    const std::byte* from;
    std::size_t bytes;
  };

  Line& line(int peer) { return lines_[static_cast<std::size_t>(peer)]; }
  bool sane(int peer, const Record& send);
  void begin(OpenMessage receive, const Arrival& arrival);
  void follow(OpenMessage receive, const Arrival& arrival);
  void take(OpenMessage& receive, const Arrival& arrival, const void* from);
  void pull(const Ready& ready, Incoming& incoming, std::size_t bytes);
  void owe(int source, std::uint64_t id, bool urgent);
  void queueAck(int source, Line& from);

  Group& group_;
  Ledger& ledger_;
  Outbox& outbox_;
  Failures& failures_;
  const Sender& sender_;
  PostedReceives posted_;
  UnexpectedMessages unexpected_;
  std::vector<Line> lines_;  // by peer
  std::deque<Ready> ready_;
  std::vector<Complete> complete_;
  std::vector<int> urgent_;  // peers that wait for an ACK
};

}  // namespace symccl
