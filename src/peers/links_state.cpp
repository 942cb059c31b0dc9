#include "peers/links_state.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/checks.hpp"
#include "base/fork.hpp"
#include "bootstrap/quiet_thread.hpp"

namespace symccl {
namespace {

constexpr std::chrono::milliseconds kSlice{50};

// Newer than the C library's headers on supported systems.
constexpr int kSoPeerPidfd = 77;
constexpr long kPidfdOpen = 434;

/// A descriptor of the process at the other end, or none where the system has no such thing.
FileDescriptor pidfdOf(int socket, int pidHere) {
  int descriptor = -1;
  socklen_t bytes = sizeof descriptor;
  if (::getsockopt(socket, SOL_SOCKET, kSoPeerPidfd, &descriptor, &bytes) == 0) return FileDescriptor(descriptor);
  if (pidHere <= 0) return {};
  return FileDescriptor(static_cast<int>(::syscall(kPidfdOpen, pidHere, 0)));
}

}  // namespace

Links::State::State(ProcessEntry entry, ProcessDescriptor listener_, ProcessDescriptor wake_, FileDescriptor reserve_)
    : self(std::move(entry)),
      generation(forkGeneration()),
      listener(std::move(listener_)),
      wake(std::move(wake_)),
      reserve(std::move(reserve_)) {
  links.emplace(self.process, std::make_unique<Link>(self, true, static_cast<int>(self.pid)));
}

Status Links::State::usable() const {
  if (generation == forkGeneration()) return {};
  return Error(Code::forked, text("these links belong to the parent process (pid ", self.pid, ")"));
}

Links::State::Link* Links::State::find(const Uuid& process) {
  const auto at = links.find(process);
  return at == links.end() ? nullptr : at->second.get();
}

Links::State::Link& Links::State::add(const ProcessEntry& entry, ProcessDescriptor socket, int pidHere) {
  auto link = std::make_unique<Link>(entry, false, pidHere);
  link->process = ProcessDescriptor(pidfdOf(socket.get(), pidHere));
  link->socket = std::move(socket);
  Link& added = *links.emplace(entry.process, std::move(link)).first->second;
  wakeSentinel();
  changed.notify_all();
  return added;
}

std::optional<Error> Links::State::takeRefusal(const ProcessEntry& entry, int pidHere) {
  while (!refusals.empty() && refusals.front().forget.passed()) refusals.pop_front();
  const auto found = std::find_if(refusals.begin(), refusals.end(), [&](const Refusal& one) {
    if (one.process) return *one.process == entry.process;
    return one.pidHere == kAnyone || (pidHere != 0 && pidHere == one.pidHere);
  });
  if (found == refusals.end()) return std::nullopt;
  Error reason = std::move(found->reason);
  refusals.erase(found);
  return reason;
}

Error Links::State::goneError(const Link& link) const {
  const Peer& peer = link.peer;
  return Error(Code::dead, pidText(peer.entry_, peer.pidHere_) + " is gone");
}

Status Links::State::startSentinel() {
  const std::lock_guard lock(mutex);
  if (sentinelRuns) return {};
  Result<std::thread> thread = startQuietThread("symccl-links", [this] { watchAll(); });
  if (!thread) return thread.error();
  thread->detach();  // it ends with the process, and holds up nobody's exit
  sentinelRuns = true;
  return {};
}

void Links::State::wakeSentinel() {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake.get(), &one, sizeof one));  // an eventfd that is full wakes as well
}

Status Links::State::enqueue(Link& link, Bytes frame, int descriptor) {
  if (link.outbox.frames() >= kMostMessages) {
    const Peer& peer = link.peer;
    return Error(Code::system,
                 text(kMostMessages, " messages wait on the link to ", pidText(peer.entry_, peer.pidHere_),
                      ", which takes none:", stateText(peer.pidHere_, false)));
  }
  const bool first = link.outbox.frames() == 0;
  link.outbox.push(std::move(frame), descriptor);
  if (!first) return {};  // the sentinel is at it
  flush(link);
  if (link.outbox.frames() > 0) wakeSentinel();
  return {};
}

void Links::State::flush(Link& link) {
  if (!link.socket) return;
  const frames::Outbox::Flushed flushed = link.outbox.flush(link.socket.get());
  link.congested = flushed == frames::Outbox::Flushed::congested;
  if (flushed == frames::Outbox::Flushed::closed) link.outbox.clear();  // that it is gone the sentinel sees by itself
}

Status Links::State::waitForChange(std::unique_lock<std::mutex>& lock, Deadline deadline,
                                   const Interrupted& interrupted, const ProcessEntry& entry, int pidHere,
                                   const std::string& late) {
  if (deadline.passed()) {
    return Error(Code::timeout,
                 text(pidText(entry, pidHere), stateText(pidHere, false), ": ", late, " before the deadline"));
  }
  changed.wait_until(lock, earlier(deadline, Deadline::in(kSlice)).at());
  if (!interrupted) return {};
  lock.unlock();
  Status status = interrupted();
  lock.lock();
  return status;
}

}  // namespace symccl
