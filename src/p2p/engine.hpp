// The point-to-point state machine of one rank: rings, matching, forms, errors. docs/protocol.md, section 4.
#pragma once

#include <vector>

#include "base/wait.hpp"
#include "p2p/failures.hpp"
#include "p2p/ledger.hpp"
#include "p2p/outbox.hpp"
#include "p2p/receiver.hpp"
#include "p2p/ring.hpp"
#include "p2p/sender.hpp"

namespace symccl {

/// Driven by one thread at a time, which calls step() from the condition of a waitUntil(). Nothing here blocks. Errors
/// make the group fail; the driver then calls fail().
class Engine {
 public:
  explicit Engine(Group& group);

  /// Messages to be started by the next step, in this order.
  void take(std::vector<OpenMessage>& fresh);
  /// Takes all records that have come, starts and moves on what can be, publishes, looks at the receivers' bells. At
  /// most 256 KiB are copied for each receive and pipe. False: nothing moved.
  bool step(Poll poll);
  /// Ends every open message.
  void fail(const Error& error);

  /// Whether there is something to drive for.
  bool busy() const { return ledger_.open() > 0 || !fresh_.empty() || !outbox_.empty(); }
  /// Whether another member must do something before all of it has ended.
  bool needsOthers() const { return ledger_.needsOthers() || !outbox_.empty(); }
  const Ledger& ledger() const { return ledger_; }
  std::vector<EndedMessage> takeEnded() { return ledger_.takeEnded(); }
  /// If a message's deadline has passed, the group fails. `earliest()` of the ledger is exact afterwards.
  void expire();
  /// Makes the end of a wait that an error ended sticky.
  void stop(WaitEnd end);

 private:
  bool drain(Poll poll);
  bool drain(Poll poll, int peer);
  void handle(int peer, const Record& record);
  bool startFresh();
  bool watchPeers(Poll poll);
  void lose(int needed, int member);
  template <class Visit>
  void each(const Visit& visit) {
    sender_.each(visit);
    receiver_.each(visit);
  }

  Group& group_;
  Ledger ledger_;
  Outbox outbox_;
  Failures failures_;
  Sender sender_;
  Receiver receiver_;
  std::vector<RingReader> rings_;   // by peer, from it to this rank
  std::vector<OpenMessage> fresh_;  // opened, not started
};

}  // namespace symccl
