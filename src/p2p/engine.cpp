#include "p2p/engine.hpp"

namespace symccl {

Engine::Engine(Group& group)
    : group_(group),
      ledger_(group),
      outbox_(group),
      failures_(group),
      sender_(group, ledger_, outbox_, failures_),
      receiver_(group, ledger_, outbox_, failures_, sender_) {
  for (int peer = 0; peer < group.size(); ++peer) {
    rings_.emplace_back(group.area(peer).ring(group.rank()), group.ownArea().ring(peer).consumed);
  }
}

void Engine::take(std::vector<OpenMessage>& fresh) {
  for (OpenMessage& message : fresh) {
    ledger_.opened(message);
    fresh_.push_back(std::move(message));
  }
  fresh.clear();
}

bool Engine::step(Poll poll) {
  bool moved = drain(poll);
  moved = startFresh() || moved;
  moved = receiver_.copyPiece() || moved;
  moved = sender_.fill() || moved;
  receiver_.acknowledge();
  const Outbox::Flushed flushed = outbox_.flush(poll, [this](int peer) { sender_.entered(peer); });
  if (flushed.corrupt >= 0) failures_.corrupts(flushed.corrupt, "a count of records taken that cannot be");
  receiver_.finish();
  outbox_.look();
  moved = flushed.moved || moved || group_.failed();
  return moved || watchPeers(poll);
}

bool Engine::drain(Poll poll) {
  bool moved = false;
  for (int peer = 0; peer < group_.size(); ++peer) moved = drain(poll, peer) || moved;
  return moved;
}

// A ring's worth at most, so that a peer that never pauses starves nobody.
bool Engine::drain(Poll poll, int peer) {
  RingReader& ring = rings_[static_cast<std::size_t>(peer)];
  Record record;
  int taken = 0;
  while (taken < kRingRecords && !group_.failed()) {
    const Look look = ring.take(poll, record);
    if (look == Look::nothing) break;
    if (look == Look::corrupt) {
      failures_.corrupts(peer, "a record that cannot be");
      break;
    }
    handle(peer, record);
    ++taken;
  }
  if (ring.madeRoom()) outbox_.touch(peer);
  return taken > 0;
}

void Engine::handle(int peer, const Record& record) {
  switch (record.type) {
    case RecordType::send:
      receiver_.arrived(peer, record);
      return;
    case RecordType::ack:
      sender_.acknowledged(peer, record);
      return;
    case RecordType::clear:
      sender_.cleared(peer, record);
      return;
    case RecordType::data:
      receiver_.filled(peer, record);
      return;
  }
}

bool Engine::startFresh() {
  if (fresh_.empty()) return false;
  for (OpenMessage& message : fresh_) {
    if (message.message.way == Message::Way::send) {
      sender_.start(std::move(message));
    } else {
      receiver_.start(std::move(message));
    }
  }
  fresh_.clear();
  return true;
}

// --- errors -------------------------------------------------------------------------------------------------------

// When nothing moves: whoever is gone or has an error has left what can still be received in its ring; what needs more
// of it fails.
bool Engine::watchPeers(Poll poll) {
  bool others = ledger_.needed(kAnySource) > 0;
  int last = -1;
  for (int peer = 0; peer < group_.size(); ++peer) {
    const bool needed = ledger_.needed(peer) > 0;
    if (peer == group_.rank() || (!needed && !others)) continue;
    if (!failures_.lost(peer)) {
      others = false;
      continue;
    }
    if (drain(poll, peer)) return true;
    last = peer;
    if (!needed) continue;
    lose(peer, peer);
    return true;
  }
  if (others && last >= 0) {
    lose(kAnySource, last);
    return true;
  }
  if (!outbox_.empty()) outbox_.forget([this](int peer) { return failures_.lost(peer) && ledger_.needed(peer) == 0; });
  return false;
}

// Blames `member` in the name of a message that needs `needed`.
void Engine::lose(int needed, int member) {
  const OpenMessage* loser = nullptr;
  each([&](const OpenMessage& open) {
    if (open.needs == needed && (loser == nullptr || open.number < loser->number)) loser = &open;
  });
  if (loser != nullptr) failures_.loses(*loser, member);
}

void Engine::expire() {
  const OpenMessage* first = nullptr;
  each([&](const OpenMessage& open) {
    if (first == nullptr || open.deadline.at() < first->deadline.at()) first = &open;
  });
  ledger_.setEarliest(first == nullptr ? Deadline::never() : first->deadline);
  if (first != nullptr && first->deadline.passed()) failures_.expires(*first);
}

void Engine::stop(WaitEnd end) {
  const OpenMessage* oldest = nullptr;
  each([&](const OpenMessage& open) {
    if (oldest == nullptr || open.number < oldest->number) oldest = &open;
  });
  failures_.stops(oldest == nullptr ? OpenMessage{} : *oldest, end);
}

void Engine::fail(const Error& error) {
  std::vector<OpenMessage> ending;
  ending.swap(fresh_);
  each([&](OpenMessage& open) { ending.push_back(std::move(open)); });
  sender_.clear();
  receiver_.clear();
  outbox_.forget([](int) { return true; });
  for (OpenMessage& open : ending) ledger_.fail(open, error);
}

}  // namespace symccl
