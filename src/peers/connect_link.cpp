#include "peers/connect_link.hpp"

#include "base/checks.hpp"
#include "bootstrap/address.hpp"
#include "peers/handshake.hpp"

namespace symccl {

using namespace handshake;

namespace {

constexpr std::chrono::milliseconds kPause{10};  // between two attempts

/// Talks on a fresh connection. Code::dead: the peer closed it, which it does with connections that it has no time for.
Status introduce(int fd, const ProcessEntry& self, const ProcessEntry& peer, Deadline deadline,
                 const Interrupted& interrupted) {
  const Bytes hello = encode(Hello{peer.process, self});
  const Status sent = sendAll(fd, hello.data(), hello.size(), deadline, interrupted);
  // An acceptor that is out of descriptors answers without listening: its reason can be read though sending failed.
  if (!sent && sent.error().code() != Code::dead) return sent;
  Bytes bytes(kHeadBytes);
  if (Status status = receiveAll(fd, bytes.data(), bytes.size(), deadline, interrupted); !status) return status;
  const std::optional<Head> head = readHead(bytes);
  if (!head) return Error(Code::corrupt, "it answers with something that is no answer");
  if (head->version != kLinkVersion) {
    return invalid("it speaks version ", head->version, " of the links, this process version ", kLinkVersion);
  }
  Bytes body(head->bodyBytes);
  if (Status status = receiveAll(fd, body.data(), body.size(), deadline, interrupted); !status) return status;
  if (Status status = readReply(body); !status) return status.error().in("it refused");
  return sendAll(fd, &kLinked, sizeof kLinked, deadline, interrupted);
}

}  // namespace

Result<ConnectedLink> connectLink(const ProcessEntry& self, const ProcessEntry& peer, Deadline deadline,
                                  const Interrupted& interrupted) {
  const Address address = Address::abstract(socketName(peer.process));
  const int pidHere = pidHereOf(peer, self);
  const auto about = [&](const Error& error) { return error.in("link to " + pidText(peer, pidHere)); };
  Status stopped;  // what ends the wait may have any code, and is not to be taken for the peer's death
  const Interrupted asked = [&] { return stopped = interrupted ? interrupted() : Status(); };
  for (;;) {
    Result<ProcessDescriptor> made = connectTo(address, deadline, asked);
    if (!stopped) return stopped.error();
    if (!made && made.error().code() == Code::dead) {
      // Its socket is there as long as the process is, so there is nothing to wait for.
      const std::string state = stateText(pidHere, false);
      const bool gone = state == " is gone" || state.empty();
      return Error(Code::dead, pidText(peer, pidHere) + (gone ? " is gone" : state + ", but its link socket is gone"));
    }
    if (!made && made.error().code() != Code::timeout) return about(made.error());
    if (made) {
      const Status status = introduce(made->get(), self, peer, deadline, asked);
      if (!stopped) return stopped.error();
      if (status) {
        Result<ucred> credentials = peerCredentials(made->get());
        if (!credentials) return about(credentials.error());
        return ConnectedLink{std::move(*made), credentials->pid};
      }
      if (status.error().code() != Code::dead && status.error().code() != Code::timeout) return about(status.error());
    }
    if (deadline.passed()) {
      return Error(Code::timeout, text(pidText(peer, pidHere), stateText(pidHere, false),
                                       ": it did not answer the request for a link before the deadline"));
    }
    if (Status status = pauseFor(kPause, deadline, asked); !status) return status.error();
  }
}

}  // namespace symccl
