// Exact transfers over nonblocking stream sockets, each with a deadline.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <functional>

#include "base/deadline.hpp"
#include "symccl/result.hpp"

namespace symccl {

/// Asked at least every 50 ms while something blocks; an error ends the wait and is returned. Empty: never.
using Interrupted = std::function<Status()>;

/// Waits until poll(2) reports one of `events` (or an error or hang-up) on `fd`. Code::timeout at the deadline.
Status awaitReady(int fd, short events, Deadline deadline, const Interrupted& interrupted);
/// Sends or receives all of `bytes`. Code::timeout at the deadline, Code::dead if the other end has closed.
Status sendAll(int fd, const void* from, std::size_t bytes, Deadline deadline, const Interrupted& interrupted);
Status receiveAll(int fd, void* to, std::size_t bytes, Deadline deadline, const Interrupted& interrupted);
/// Sleeps for `pause`, at most until the deadline, asking `interrupted`.
Status pauseFor(std::chrono::milliseconds pause, Deadline deadline, const Interrupted& interrupted);

/// The process and user at the other end of a Unix socket, as the kernel saw them at connect(2) or listen(2).
Result<ucred> peerCredentials(int fd);

}  // namespace symccl
