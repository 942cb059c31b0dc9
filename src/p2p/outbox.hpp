// Records on their way to the peers: a local queue in front of each ring, so that nothing ever waits for room.
#pragma once

#include <deque>
#include <vector>

#include "p2p/record.hpp"
#include "p2p/ring.hpp"
#include "protocol/group.hpp"

namespace symccl {

/// Never longer than the open requests of this rank and of its peers allow. One thread at a time.
class Outbox {
 public:
  explicit Outbox(Group& group);

  void queue(int peer, const Record& record);
  bool empty() const { return waiting_.empty(); }
  /// Records that were queued for `peer`, and of these, how many are in the ring.
  std::uint64_t queued(int peer) const { return ways_[static_cast<std::size_t>(peer)].queued; }
  std::uint64_t entered(int peer) const {
    const Way& to = ways_[static_cast<std::size_t>(peer)];
    return to.queued - to.queue.size();
  }

  struct Flushed {
    bool moved = false;
    int corrupt = -1;  ///< the peer whose count of its ring cannot be
  };
  /// Moves into the rings what has room. `sendEntered(peer)` is called after each SEND is in its ring.
  template <class SendEntered>
  Flushed flush(Poll poll, const SendEntered& sendEntered);

  /// `peer` may be waiting for this rank: its bell is looked at by the next look().
  void touch(int peer);
  /// Wakes the touched peers that sleep for this rank or for any (rule W). Only the receivers of records are looked at.
  void look();

  /// Forgets what is queued for the peers for which `lost(peer)` holds.
  template <class Lost>
  void forget(const Lost& lost) {
    std::erase_if(waiting_, [&](int peer) {
      if (!lost(peer)) return false;
      way(peer).queue.clear();
      return true;
    });
  }

 private:
  struct Way {
    RingWriter ring;
    std::deque<Record> queue;
    std::uint64_t queued = 0;
    bool touched = false;
  };
  Way& way(int peer) { return ways_[static_cast<std::size_t>(peer)]; }

  Group& group_;
  std::vector<Way> ways_;     // by peer
  std::vector<int> waiting_;  // peers whose queues are not empty
  std::vector<int> touched_;
};

template <class SendEntered>
Outbox::Flushed Outbox::flush(Poll poll, const SendEntered& sendEntered) {
  Flushed flushed;
  std::erase_if(waiting_, [&](int peer) {
    Way& to = way(peer);
    while (!to.queue.empty()) {
      const Look room = to.ring.room(poll);
      if (room == Look::corrupt) flushed.corrupt = peer;
      if (room != Look::ready) return false;
      const bool send = to.queue.front().type == RecordType::send;
      to.ring.put(to.queue.front());
      to.queue.pop_front();
      touch(peer);
      flushed.moved = true;
      if (send) sendEntered(peer);
    }
    return true;
  });
  return flushed;
}

}  // namespace symccl
