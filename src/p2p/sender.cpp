#include "p2p/sender.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checks.hpp"
#include "kernels/kernels.hpp"

namespace symccl {

namespace {

// So many inline messages of a pair may be un-ACKed and yet complete. The receiver keeps back a few ACKs of such
// messages; those do not count against what a program may buffer.
constexpr int kBufferedInline = 64 + kAcksKeptBack;

}  // namespace

Sender::Sender(Group& group, Ledger& ledger, Outbox& outbox, Failures& failures)
    : group_(group),
      ledger_(ledger),
      outbox_(outbox),
      failures_(failures),
      lines_(static_cast<std::size_t>(group.size())) {}

void Sender::start(OpenMessage message) {
  const int peer = message.message.peer;
  if (failures_.lost(peer)) {
    failures_.loses(message, peer);
    ledger_.fail(message, group_.status().error());
    return;
  }
  Line& to = line(peer);
  const std::uint64_t id = ++to.sends;
  Outgoing& outgoing = to.outgoing[id];
  outgoing.open = std::move(message);
  Record send;
  send.type = RecordType::send;
  send.tag = static_cast<std::uint32_t>(outgoing.open.message.tag);
  send.number = outgoing.open.message.bytes;
  outgoing.form = send.form = shape(outgoing, to, send);
  outbox_.queue(peer, send);
}

// Chooses the form, and puts into the record what the receiver needs for it.
Form Sender::shape(Outgoing& outgoing, Line& to, Record& send) {
  const Message& message = outgoing.open.message;
  if (message.bytes <= kInlineMessage) {
    send.count = static_cast<std::uint8_t>(message.bytes);
    if (message.bytes > 0) std::memcpy(send.body.data(), message.data, message.bytes);
    if (to.inlined == kBufferedInline) return Form::inlinedOpen;
    ++to.inlined;
    return Form::inlined;
  }
  if (message.peer == group_.rank()) return Form::located;  // see ownMessage()
  if (outgoing.open.location != kPrivate) {
    send.body[0] = outgoing.open.location;
    return Form::located;
  }
  if (message.bytes <= kEagerBytes) {
    const int slot = takeEagerSlot(to, message.peer);
    if (slot >= 0) {
      copy(group_.ownArea().eagerMessage(message.peer, slot), message.data, message.bytes, Stores::ordinary);
      outgoing.eagerSlot = slot;
      send.body[0] = static_cast<std::uint64_t>(slot);
      return Form::eager;
    }
  }
  return Form::onDemand;
}

// -1: none is free, or there is no memory for them.
int Sender::takeEagerSlot(Line& to, int peer) {
  if (to.freeEagerSlots == 0) return -1;
  if (!to.eagerBacked) {
    const auto first = static_cast<std::size_t>(group_.ownArea().eagerMessage(peer, 0) - group_.heap().base());
    to.eagerBacked = static_cast<bool>(group_.heap().back(first, kEagerMessages * kEagerBytes));
    if (!to.eagerBacked) return -1;
  }
  const int slot = std::countr_zero(to.freeEagerSlots);
  to.freeEagerSlots &= to.freeEagerSlots - 1;
  return slot;
}

void Sender::end(Outgoing& outgoing) {
  outgoing.ended = true;
  ledger_.sent(outgoing.open, outgoing.form);
}

void Sender::entered(int peer) {
  Line& to = line(peer);
  const auto found = to.outgoing.find(++to.entered);
  const Form form = found->second.form;
  if (form == Form::inlined || form == Form::eager) end(found->second);
}

const std::byte* Sender::ownMessage(std::uint64_t id) const {
  const Line& own = lines_[static_cast<std::size_t>(group_.rank())];
  const auto found = own.outgoing.find(id);
  return found == own.outgoing.end() ? nullptr : static_cast<const std::byte*>(found->second.open.message.data);
}

// --- what the receiver answers ------------------------------------------------------------------------------------

void Sender::acknowledged(int peer, const Record& ack) {
  if (ack.count < 1 || ack.count > kIdsPerAck) {
    failures_.corrupts(peer, text("an ACK of ", int{ack.count}, " messages"));
    return;
  }
  for (int index = 0; index < ack.count; ++index) acknowledge(peer, ack.body[static_cast<std::size_t>(index)]);
}

void Sender::acknowledge(int peer, std::uint64_t id) {
  Line& from = line(peer);
  const auto found = from.outgoing.find(id);
  const bool expected = found != from.outgoing.end() && id <= from.entered &&
                        (found->second.form != Form::onDemand || found->second.halves > 0);
  if (!expected) {
    failures_.corrupts(peer, text("an ACK of message ", id, ", which waits for none"));
    return;
  }
  Outgoing& outgoing = found->second;
  if (outgoing.form == Form::onDemand) {
    halfCopied(from, id, outgoing);
    return;
  }
  if (outgoing.form == Form::inlined) --from.inlined;
  if (outgoing.form == Form::eager) from.freeEagerSlots |= 1u << outgoing.eagerSlot;
  if (!outgoing.ended) end(outgoing);
  from.outgoing.erase(found);
}

void Sender::cleared(int peer, const Record& clear) {
  Line& to = line(peer);
  const auto found = to.outgoing.find(clear.number);
  if (found == to.outgoing.end() || clear.number > to.entered || found->second.form != Form::onDemand ||
      found->second.cleared) {
    failures_.corrupts(peer, text("a CTS for message ", clear.number, ", which waits for none"));
    return;
  }
  found->second.cleared = true;
  cleared_.push_back({peer, clear.number});
}

// --- pipes --------------------------------------------------------------------------------------------------------

void Sender::halfCopied(Line& from, std::uint64_t id, Outgoing& outgoing) {
  --outgoing.halves;
  if (outgoing.halves > 0 || outgoing.filled < outgoing.open.message.bytes) return;
  std::ranges::find(pipes_, &outgoing, &Pipe::user)->user = nullptr;
  end(outgoing);
  from.outgoing.erase(id);
}

bool Sender::fill() {
  bool moved = false;
  for (Pipe& pipe : pipes_) {
    if (pipe.user == nullptr && !(openPipe(pipe))) continue;
    if (group_.failed()) return true;
    moved = fill(pipe) || moved;
  }
  return moved;
}

bool Sender::openPipe(Pipe& pipe) {
  if (cleared_.empty()) return false;
  const Cleared first = cleared_.front();
  cleared_.pop_front();
  pipe.user = &line(first.peer).outgoing.find(first.id)->second;
  pipe.id = first.id;
  pipe.next = 0;
  if (!pipe.backed) {
    const auto start = static_cast<std::size_t>(group_.ownArea().pipe(static_cast<int>(&pipe - pipes_.data()), 0) -
                                                group_.heap().base());
    const Status backed = group_.heap().back(start, 2 * kPipeHalf);
    if (!backed) failures_.refuses(pipe.user->open, backed.error());
    pipe.backed = static_cast<bool>(backed);
  }
  return true;
}

bool Sender::fill(Pipe& pipe) {
  Outgoing& outgoing = *pipe.user;
  const Message& message = outgoing.open.message;
  if (outgoing.halves == 2 || outgoing.filled == message.bytes) return false;
  const auto index = static_cast<int>(&pipe - pipes_.data());
  const std::size_t bytes = std::min(kPipeHalf, message.bytes - outgoing.filled);
  copy(group_.ownArea().pipe(index, pipe.next), static_cast<const std::byte*>(message.data) + outgoing.filled, bytes,
       Stores::ordinary);
  if (!failures_.clean(outgoing.open, message.peer)) return true;
  Record data;
  data.type = RecordType::data;
  data.form = Form::onDemand;
  data.number = pipe.id;
  data.body = {outgoing.filled, bytes, static_cast<std::uint64_t>(index * 2 + pipe.next)};
  outbox_.queue(message.peer, data);
  outgoing.filled += bytes;
  ++outgoing.halves;
  pipe.next ^= 1;
  return true;
}

void Sender::clear() {
  for (Line& line : lines_) line.outgoing.clear();
  for (Pipe& pipe : pipes_) pipe.user = nullptr;
  cleared_.clear();
}

}  // namespace symccl
