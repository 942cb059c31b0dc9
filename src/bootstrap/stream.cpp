#include "bootstrap/stream.hpp"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/checks.hpp"

namespace symccl {
namespace {

constexpr int kSlice = 50;  // milliseconds between two looks at `interrupted`

bool wouldBlock(int number) { return number == EAGAIN || number == EWOULDBLOCK; }

Error closedByPeer() { return Error(Code::dead, "the other end closed the connection"); }

bool meansClosed(int number) { return number == EPIPE || number == ECONNRESET; }

}  // namespace

Status awaitReady(int fd, short events, Deadline deadline, const Interrupted& interrupted) {
  for (;;) {
    pollfd one{fd, events, 0};
    const int ready = ::poll(&one, 1, std::min(kSlice, deadline.leftForPoll()));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return systemError("poll");
    if (interrupted) {
      if (Status status = interrupted(); !status) return status;
    }
    if (deadline.passed()) return Error(Code::timeout, "the deadline passed");
  }
}

Status sendAll(int fd, const void* from, std::size_t bytes, Deadline deadline, const Interrupted& interrupted) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t sent = ::send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      at += sent;
      bytes -= static_cast<std::size_t>(sent);
    } else if (wouldBlock(errno)) {
      if (Status status = awaitReady(fd, POLLOUT, deadline, interrupted); !status) return status;
    } else if (meansClosed(errno)) {
      return closedByPeer();
    } else if (errno != EINTR) {
      return systemError("send");
    }
  }
  return {};
}

Status receiveAll(int fd, void* to, std::size_t bytes, Deadline deadline, const Interrupted& interrupted) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::recv(fd, at, bytes, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got > 0) {
      at += got;
      bytes -= static_cast<std::size_t>(got);
    } else if (got == 0 || meansClosed(errno)) {
      return closedByPeer();
    } else if (wouldBlock(errno)) {
      if (Status status = awaitReady(fd, POLLIN, deadline, interrupted); !status) return status;
    } else if (errno != EINTR) {
      return systemError("recv");
    }
  }
  return {};
}

Status pauseFor(std::chrono::milliseconds pause, Deadline deadline, const Interrupted& interrupted) {
  const Deadline end = earlier(Deadline::in(pause), deadline);
  while (!end.passed()) {
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(end.left(), std::chrono::milliseconds(kSlice)));
    if (interrupted) {
      if (Status status = interrupted(); !status) return status;
    }
  }
  return {};
}

Result<ucred> peerCredentials(int fd) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0)
    return systemError("getsockopt(SO_PEERCRED)");
  return credentials;
}

}  // namespace symccl
