#include "p2p/outbox.hpp"

namespace symccl {

Outbox::Outbox(Group& group) : group_(group) {
  for (int peer = 0; peer < group.size(); ++peer) {
    ways_.push_back(
        {RingWriter(group.ownArea().ring(peer), group.area(peer).ring(group.rank()).consumed), {}, 0, false});
  }
}

void Outbox::queue(int peer, const Record& record) {
  Way& to = way(peer);
  if (to.queue.empty()) waiting_.push_back(peer);
  to.queue.push_back(record);
  ++to.queued;
}

void Outbox::touch(int peer) {
  if (way(peer).touched || peer == group_.rank()) return;
  way(peer).touched = true;
  touched_.push_back(peer);
}

void Outbox::look() {
  if (touched_.empty()) return;
  for (int peer : touched_) way(peer).touched = false;
  lookAtBells(group_.pointToPoint(), touched_);
  touched_.clear();
}

}  // namespace symccl
