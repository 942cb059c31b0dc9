#include "p2p/receiver.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/checks.hpp"
#include "kernels/kernels.hpp"
#include "p2p/sender.hpp"

namespace symccl {

namespace {

// The most that is copied between two looks at the error words and at other messages.
constexpr std::size_t kPiece = 256 << 10;
static_assert(kPiece >= kPipeHalf);

}  // namespace

Receiver::Receiver(Group& group, Ledger& ledger, Outbox& outbox, Failures& failures, const Sender& sender)
    : group_(group),
      ledger_(ledger),
      outbox_(outbox),
      failures_(failures),
      sender_(sender),
      posted_(group.size()),
      unexpected_(group.size()),
      lines_(static_cast<std::size_t>(group.size())) {}

void Receiver::start(OpenMessage receive) {
  if (const std::optional<Arrival> arrival = unexpected_.match(receive.message.peer, receive.message.tag)) {
    begin(std::move(receive), *arrival);
  } else {
    posted_.add(std::move(receive));
  }
}

void Receiver::arrived(int peer, const Record& send) {
  if (!sane(peer, send)) {
    failures_.corrupts(peer, text("a message of ", send.number, " B in form ", static_cast<int>(send.form),
                                  " with tag ", send.tag, " at ", send.body[0]));
    return;
  }
  const Arrival arrival{send, peer, ++line(peer).arrivals};
  if (std::optional<OpenMessage> receive = posted_.match(peer, send.tag)) {
    begin(std::move(*receive), arrival);
  } else {
    unexpected_.add(arrival);
  }
}

// Every value that a peer wrote is bounded by what this rank knows.
bool Receiver::sane(int peer, const Record& send) {
  if (send.tag > static_cast<std::uint32_t>(std::numeric_limits<int>::max())) return false;
  const std::size_t heapBytes = group_.place(peer).heapBytes;
  const bool own = peer == group_.rank();
  switch (send.form) {
    case Form::inlined:
    case Form::inlinedOpen:
      return send.number <= kInlineMessage && send.count == send.number;
    case Form::eager:
      return send.number <= kEagerBytes && send.body[0] < kEagerMessages;
    case Form::located:
      return own || (send.number <= heapBytes && send.body[0] <= heapBytes - send.number);
    case Form::onDemand:
      return send.number > 0;
  }
  return false;
}

// --- matched ------------------------------------------------------------------------------------------------------

void Receiver::begin(OpenMessage receive, const Arrival& arrival) {
  const std::uint64_t bytes = arrival.record.number;
  ledger_.matched(receive, arrival.source);
  if (bytes > receive.message.bytes || (receive.message.exact && bytes != receive.message.bytes)) {
    failures_.truncates(receive, arrival.source, arrival.record.tag, bytes);
    ledger_.fail(receive, group_.status().error());
    return;
  }
  switch (arrival.record.form) {
    case Form::inlined:
    case Form::inlinedOpen:
      take(receive, arrival, arrival.record.body.data());
      return;
    case Form::eager: {
      const auto slot = static_cast<int>(arrival.record.body[0]);
      take(receive, arrival, group_.area(arrival.source).eagerMessage(group_.rank(), slot));
      return;
    }
    case Form::located:
    case Form::onDemand:
      follow(std::move(receive), arrival);
  }
}

// Inline and eager: all at once.
void Receiver::take(OpenMessage& receive, const Arrival& arrival, const void* from) {
  const auto bytes = static_cast<std::size_t>(arrival.record.number);
  if (bytes > 0) copy(receive.message.data, from, bytes, Stores::ordinary);
  owe(arrival.source, arrival.id, arrival.record.form != Form::inlined);
  if (arrival.record.form == Form::inlinedOpen) {
    complete_.push_back({std::move(receive), bytes, 0});
  } else {
    ledger_.received(receive, bytes);
  }
}

// Located and on demand: piece by piece.
void Receiver::follow(OpenMessage receive, const Arrival& arrival) {
  const int source = arrival.source;
  Incoming& incoming = line(source).incoming[arrival.id];
  incoming.open = std::move(receive);
  incoming.form = arrival.record.form;
  incoming.bytes = static_cast<std::size_t>(arrival.record.number);
  if (incoming.form == Form::onDemand) {
    Record clear;
    clear.type = RecordType::clear;
    clear.number = arrival.id;
    outbox_.queue(source, clear);
    return;
  }
  const std::byte* from =
      source == group_.rank() ? sender_.ownMessage(arrival.id) : group_.place(source).heapBase + arrival.record.body[0];
  ready_.push_back({source, arrival.id, from, incoming.bytes});
}

void Receiver::filled(int peer, const Record& data) {
  const auto [offset, bytes, half, unused, unused2] = data.body;
  const auto found = line(peer).incoming.find(data.number);
  const bool expected = found != line(peer).incoming.end() && found->second.form == Form::onDemand &&
                        offset == found->second.announced && bytes > 0 && bytes <= kPipeHalf &&
                        bytes <= found->second.bytes - found->second.announced && half < 2 * kPipes;
  if (!expected) {
    failures_.corrupts(peer, text(bytes, " B at ", offset, " in half ", half, " for message ", data.number,
                                  ", which expects something else"));
    return;
  }
  found->second.announced += bytes;
  const std::byte* from = group_.area(peer).pipe(static_cast<int>(half / 2), static_cast<int>(half % 2));
  ready_.push_back({peer, data.number, from, static_cast<std::size_t>(bytes)});
}

bool Receiver::copyPiece() {
  if (ready_.empty()) return false;
  Ready ready = ready_.front();
  ready_.pop_front();
  const auto found = line(ready.source).incoming.find(ready.id);
  Incoming& incoming = found->second;
  const std::size_t bytes = std::min(kPiece, ready.bytes);
  pull(ready, incoming, bytes);
  if (!failures_.clean(incoming.open, ready.source)) return true;  // what was copied is void
  incoming.received += bytes;
  ready.from += bytes;
  ready.bytes -= bytes;
  if (ready.bytes > 0) {
    ready_.push_back(ready);
    return true;
  }
  owe(ready.source, ready.id, true);
  if (incoming.received == incoming.bytes) {
    complete_.push_back({std::move(incoming.open), incoming.bytes, 0});
    line(ready.source).incoming.erase(found);
  }
  return true;
}

void Receiver::pull(const Ready& ready, Incoming& incoming, std::size_t bytes) {
  const MemberPlace& place = group_.place(ready.source);
  if (incoming.form == Form::located && place.mapped != nullptr) {
    place.mapped->populate(static_cast<std::size_t>(ready.from - place.heapBase), bytes);
  }
  copy(static_cast<std::byte*>(incoming.open.message.data) + incoming.received, ready.from, bytes, Stores::ordinary);
}

// --- acknowledging ------------------------------------------------------------------------------------------------

void Receiver::owe(int source, std::uint64_t id, bool urgent) {
  Line& from = line(source);
  from.ack.type = RecordType::ack;
  from.ack.body[from.ack.count++] = id;
  if (urgent && !from.ackUrgent) {
    from.ackUrgent = true;
    urgent_.push_back(source);
  }
  if (from.ack.count == kIdsPerAck) queueAck(source, from);
}

void Receiver::queueAck(int source, Line& from) {
  if (from.ack.count == 0) return;
  outbox_.queue(source, from.ack);
  from.ack.count = 0;
}

void Receiver::acknowledge() {
  for (int source : urgent_) {
    line(source).ackUrgent = false;
    queueAck(source, line(source));
  }
  urgent_.clear();
  for (Complete& complete : complete_) {
    if (complete.record == 0) complete.record = outbox_.queued(complete.open.needs);
  }
}

void Receiver::finish() {
  std::erase_if(complete_, [this](Complete& complete) {
    if (outbox_.entered(complete.open.needs) < complete.record) return false;
    ledger_.received(complete.open, complete.bytes);
    return true;
  });
}

void Receiver::clear() {
  posted_.clear();
  unexpected_.clear();
  for (Line& line : lines_) line.incoming.clear();
  ready_.clear();
  complete_.clear();
  urgent_.clear();
}

}  // namespace symccl
