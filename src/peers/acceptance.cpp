#include "peers/acceptance.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/checks.hpp"

namespace symccl {

using namespace handshake;

// Reads exactly `bytes`: what comes after the last byte of the handshake are frames, with descriptors.
Acceptance::Got Acceptance::fill(std::size_t bytes) {
  while (in_.size() < bytes) {
    std::uint8_t chunk[512];
    const ssize_t got = ::recv(socket_.get(), chunk, std::min(sizeof chunk, bytes - in_.size()), MSG_DONTWAIT);
    if (got > 0) {
      in_.insert(in_.end(), chunk, chunk + got);
    } else if (got < 0 && errno == EAGAIN) {
      return Got::notYet;
    } else if (got == 0 || errno != EINTR) {
      return Got::closed;
    }
  }
  return Got::all;
}

Acceptance::Step Acceptance::fail() {
  socket_.reset();
  return Step::failed;
}

Acceptance::Step Acceptance::advance() {
  for (;;) {
    if (deadline_.passed()) return fail();
    if (awaits_ == Awaits::verdict) return Step::introduced;
    const std::size_t bytes = awaits_ == Awaits::head ? kHeadBytes : awaits_ == Awaits::body ? bodyBytes_ : 1;
    const Got got = fill(bytes);
    if (got == Got::notYet) return Step::waiting;
    if (got == Got::closed) return fail();
    if (awaits_ == Awaits::confirmation) return in_[0] == kLinked ? Step::linked : fail();
    const Step step = awaits_ == Awaits::head ? onHead() : onBody();
    if (step != Step::waiting) return step;
  }
}

Acceptance::Step Acceptance::onHead() {
  const std::optional<Head> head = readHead(in_);
  if (!head) return fail();
  if (head->version != kLinkVersion) {
    refuse(invalid("pid ", pidHere_, " speaks version ", head->version, " of the links, this process version ",
                   kLinkVersion));
    return Step::failed;
  }
  bodyBytes_ = head->bodyBytes;
  in_.clear();
  awaits_ = Awaits::body;
  return Step::waiting;
}

Acceptance::Step Acceptance::onBody() {
  std::optional<Hello> hello = readHello(in_);
  if (!hello) return fail();
  hello_ = std::move(*hello);
  in_.clear();
  awaits_ = Awaits::verdict;
  return Step::introduced;
}

void Acceptance::welcome() {
  const Bytes reply = encodeWelcome();
  // The first bytes on a fresh connection always fit; if it is closed, the next read tells.
  static_cast<void>(::send(socket_.get(), reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  awaits_ = Awaits::confirmation;
  deadline_ = Deadline::in(kTime);
}

void Acceptance::refuse(const Error& reason) {
  const Bytes reply = encodeRefusal(reason);
  static_cast<void>(::send(socket_.get(), reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  error_ = reason;
  socket_.reset();
}

}  // namespace symccl
