// The accepting side of one handshake: a connection that is not a link yet.
#pragma once

#include "base/deadline.hpp"
#include "bootstrap/process_descriptor.hpp"
#include "peers/handshake.hpp"

namespace symccl {

/// Never blocks; belongs to one thread. Whoever is at the other end has kTime for each of its two messages.
class Acceptance {
 public:
  static constexpr std::chrono::seconds kTime{5};

  enum class Step {
    waiting,     ///< for the other end
    introduced,  ///< hello() can be read; say welcome() or refuse()
    linked,      ///< take() the socket
    failed,      ///< closed, too slow, or junk; error() may have a reason worth telling
  };

  Acceptance(ProcessDescriptor socket, int pidHere) : socket_(std::move(socket)), pidHere_(pidHere) {}

  /// Goes on with what has come.
  Step advance();
  void welcome();
  void refuse(const Error& reason);

  int descriptor() const { return socket_.get(); }
  int pidHere() const { return pidHere_; }
  Deadline deadline() const { return deadline_; }
  const handshake::Hello& hello() const { return hello_; }
  /// After `failed`: why the other end cannot be linked, if that is more than an accident.
  const std::optional<Error>& error() const { return error_; }
  ProcessDescriptor take() { return std::move(socket_); }

 private:
  enum class Awaits { head, body, verdict, confirmation };
  enum class Got { all, notYet, closed };

  Got fill(std::size_t bytes);
  Step fail();
  Step onHead();
  Step onBody();

  ProcessDescriptor socket_;
  int pidHere_;
  Deadline deadline_ = Deadline::in(kTime);
  Awaits awaits_ = Awaits::head;
  Bytes in_;
  std::size_t bodyBytes_ = 0;
  handshake::Hello hello_;
  std::optional<Error> error_;
};

}  // namespace symccl
