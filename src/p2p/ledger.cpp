#include "p2p/ledger.hpp"

#include "base/log.hpp"

namespace symccl {

namespace {

const char* nameOf(Form form) {
  switch (form) {
    case Form::eager:
      return "eager";
    case Form::located:
      return "located";
    case Form::onDemand:
      return "on demand";
    case Form::inlined:
    case Form::inlinedOpen:
      break;
  }
  return "inline";
}

}  // namespace

void Ledger::opened(OpenMessage& message) {
  message.needs = message.message.peer;
  ++needed_[static_cast<std::size_t>(message.needs + 1)];
  ++open_;
  earliest_ = earlier(earliest_, message.deadline);
}

void Ledger::matched(OpenMessage& receive, int source) {
  --needed_[static_cast<std::size_t>(receive.needs + 1)];
  receive.needs = source;
  ++needed_[static_cast<std::size_t>(source + 1)];
}

void Ledger::sent(OpenMessage& send, Form form) {
  add(sends_, 1);
  add(sentBytes_, send.message.bytes);
  add(counterOf(form), 1);
  log(LogLevel::trace, "P2P", group_.rank(), "comm ", group_.name(), " send ", send.number, " to ", send.needs, " tag ",
      send.message.tag, " bytes ", send.message.bytes, " form ", nameOf(form));
  end(send, {}, send.message.bytes);
}

void Ledger::received(OpenMessage& receive, std::size_t bytes) {
  add(recvs_, 1);
  add(receivedBytes_, bytes);
  log(LogLevel::trace, "P2P", group_.rank(), "comm ", group_.name(), " recv ", receive.number, " from ", receive.needs,
      " bytes ", bytes);
  end(receive, {}, bytes);
}

void Ledger::fail(OpenMessage& message, const Error& error) { end(message, error, 0); }

void Ledger::refuse(Group& group, OpenMessage& message, const Error& error) {
  unpin(group, message);
  message.request->finish(error);
}

void Ledger::unpin(Group& group, const OpenMessage& message) {
  if (message.location != kPrivate) group.heap().unpin(message.location, message.message.bytes);
}

void Ledger::end(OpenMessage& message, Status status, std::size_t bytes) {
  --needed_[static_cast<std::size_t>(message.needs + 1)];
  --open_;
  unpin(group_, message);
  const bool receive = message.message.way == Message::Way::recv;
  ended_.push_back({std::move(message.request), std::move(status), receive ? message.needs : -1, bytes});
}

Ledger::Counter& Ledger::counterOf(Form form) {
  switch (form) {
    case Form::eager:
      return eager_;
    case Form::located:
      return located_;
    case Form::onDemand:
      return onDemand_;
    case Form::inlined:
    case Form::inlinedOpen:
      break;
  }
  return inlined_;
}

MessageCounters Ledger::counters() const {
  const auto get = [](const Counter& counter) { return counter.load(std::memory_order_relaxed); };
  return {get(sends_),   get(recvs_), get(sentBytes_), get(receivedBytes_),
          get(inlined_), get(eager_), get(located_),   get(onDemand_)};
}

}  // namespace symccl
