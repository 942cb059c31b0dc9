// Where a stream socket listens: TCP, or an abstract Unix name.
#pragma once

#include <string>
#include <string_view>

#include "base/deadline.hpp"
#include "bootstrap/process_descriptor.hpp"
#include "bootstrap/stream.hpp"
#include "symccl/result.hpp"

namespace symccl {

/// An abstract Unix name has no file: it is gone with the last process that holds it.
struct Address {
  std::string host;  ///< TCP: name or number
  int port = 0;      ///< TCP: 1..65535; 0 to listen on any
  std::string name;  ///< Unix: the abstract name, without its leading zero byte; empty: TCP

  bool isUnix() const { return !name.empty(); }
  /// "host:port", "[::1]:port" or "unix:@name".
  std::string text() const;
  /// Reads what text() writes. Code::invalid says what is accepted.
  static Result<Address> parse(std::string_view text);
  static Address abstract(std::string name) { return {{}, 0, std::move(name)}; }
};

struct Listener {
  ProcessDescriptor socket;
  int port = 0;           ///< TCP
  bool loopback = false;  ///< nobody on another host can reach it
};

/// A nonblocking listening socket. Code::system if the address is taken or not of this host, Code::invalid if it does
/// not resolve.
Result<Listener> listenAt(const Address& address);

/// A connected nonblocking socket; one attempt at each address that the host resolves to. Code::dead if nobody listens
/// there (yet), Code::timeout, Code::invalid if the host does not resolve or, at a Unix name, another user listens.
Result<ProcessDescriptor> connectTo(const Address& address, Deadline deadline, const Interrupted& interrupted);

}  // namespace symccl
