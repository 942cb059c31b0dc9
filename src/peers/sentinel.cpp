// The one thread that looks after all links of the process. It sleeps in poll(2) and has nothing to do but when a link
// is made, a message comes, or a process goes.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/checks.hpp"
#include "base/log.hpp"
#include "bootstrap/stream.hpp"
#include "peers/links_state.hpp"

namespace symccl {
namespace {

constexpr std::size_t kMostAcceptances = 256;    // handshakes at a time; more wait in the kernel's queue
constexpr std::chrono::milliseconds kRest{100};  // no accept for so long after one failed for lack of descriptors
constexpr int kCongestedTime = 5;                // milliseconds until the next attempt
constexpr int kReadsInARow = 16;                 // before the other links get their turn
constexpr std::size_t kMostRefusals = 64;
constexpr std::chrono::seconds kRefusalTime{60};

}  // namespace

/// What poll(2) waits for: wake, listener, acceptances in the order of their list, then two for each open link.
struct Links::State::PollSet {
  std::vector<pollfd> polled;
  struct OpenLink {
    Link* link;
    bool congested;
  };
  std::vector<OpenLink> links;
  std::size_t acceptances = 0;
  int timeout = -1;

  void sooner(int milliseconds) { timeout = timeout < 0 ? milliseconds : std::min(timeout, milliseconds); }
  short eventsOf(std::size_t link, int which) const {
    return polled[2 + acceptances + 2 * link + static_cast<std::size_t>(which)].revents;
  }
};

void Links::State::collectPollSet(PollSet& set) {
  set = {};
  const bool accepting = acceptances.size() < kMostAcceptances && acceptAgain.passed();
  if (!acceptAgain.passed()) set.sooner(acceptAgain.leftForPoll());
  set.polled.push_back({wake.get(), POLLIN, 0});
  set.polled.push_back({listener.get(), static_cast<short>(accepting ? POLLIN : 0), 0});
  for (const Acceptance& one : acceptances) {
    set.polled.push_back({one.descriptor(), POLLIN, 0});
    set.sooner(one.deadline().leftForPoll());
  }
  set.acceptances = acceptances.size();
  const std::lock_guard lock(mutex);
  for (const auto& [process, link] : links) {
    if (!link->socket) continue;
    const bool full = link->messages.size() >= kMostMessages;
    const bool sends = link->outbox.frames() > 0;
    if (sends && link->congested) set.sooner(kCongestedTime);
    const int events = (full ? 0 : POLLIN) | (sends && !link->congested ? POLLOUT : 0);
    set.polled.push_back({link->socket.get(), static_cast<short>(events), 0});  // hang-ups are always reported
    set.polled.push_back({link->process.get(), POLLIN, 0});                     // -1 is ignored
    set.links.push_back({link.get(), sends && link->congested});
  }
}

void Links::State::watchAll() {
  PollSet set;
  for (;;) {
    collectPollSet(set);
    if (::poll(set.polled.data(), set.polled.size(), set.timeout) < 0) continue;
    if (set.polled[0].revents != 0) drainWake();
    advanceAll(set);
    for (std::size_t i = 0; i < set.links.size(); ++i) {
      const short socket = set.eventsOf(i, 0), process = set.eventsOf(i, 1);
      const bool hungUp = (socket & (POLLHUP | POLLERR)) != 0 || process != 0;
      if (socket != 0 || process != 0 || set.links[i].congested) serve(*set.links[i].link, hungUp);
    }
    if (set.polled[1].revents != 0) acceptAll();
  }
}

void Links::State::drainWake() {
  std::uint64_t count = 0;
  static_cast<void>(!::read(wake.get(), &count, sizeof count));
}

// Handshakes.

void Links::State::acceptAll() {
  while (acceptances.size() < kMostAcceptances) {
    FileDescriptor made(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!made) {
      if (errno == EAGAIN) return;
      if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) continue;  // that one is gone
      refuseForLackOfDescriptors();
      acceptAgain = Deadline::in(kRest);
      return;
    }
    Result<ucred> peer = peerCredentials(made.get());
    if (!peer) continue;
    if (peer->uid != ::geteuid()) {
      recordRefusal(std::nullopt, peer->pid,
                    invalid("it belongs to user ", peer->uid, ", this process to user ", ::geteuid()));
      continue;
    }
    acceptances.emplace_back(ProcessDescriptor(std::move(made)), peer->pid);
    advance(std::prev(acceptances.end()));
  }
}

void Links::State::refuseForLackOfDescriptors() {
  const Error problem = systemError("accepting a link").in("no file descriptor is left (`ulimit -n` raises the limit)");
  log(LogLevel::warn, "LINKS", -1, problem.message());
  reserve.reset();
  FileDescriptor made(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (made) {
    Result<ucred> peer = peerCredentials(made.get());
    Acceptance one(ProcessDescriptor(std::move(made)), peer ? peer->pid : 0);
    one.refuse(problem);
    if (peer) recordRefusal(std::nullopt, peer->pid, problem);
  } else {
    recordRefusal(std::nullopt, kAnyone, problem);  // the reserve was taken by somebody else
  }
  reserve = FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void Links::State::recordRefusal(std::optional<Uuid> process, int pidHere, const Error& reason) {
  const std::lock_guard lock(mutex);
  if (refusals.size() >= kMostRefusals) refusals.pop_front();
  refusals.push_back({process, pidHere, reason, Deadline::in(kRefusalTime)});
  changed.notify_all();
}

/// Whether a process that has introduced itself may be linked.
Status Links::State::judge(const Acceptance& one) {
  const handshake::Hello& hello = one.hello();
  if (hello.to != self.process) return invalid("it asked for a process that is not this one");
  if (!(hello.from.process < self.process))
    return invalid("it asked for a link, but of the two processes the other one asks");
  const std::lock_guard lock(mutex);
  if (find(hello.from.process)) return invalid("there is a link between the two processes already");
  return {};
}

void Links::State::advance(std::list<Acceptance>::iterator at) {
  for (;;) {
    switch (at->advance()) {
      case Acceptance::Step::waiting:
        return;
      case Acceptance::Step::introduced:
        if (Status status = judge(*at); status) {
          at->welcome();
          continue;
        } else {
          at->refuse(status.error());
          acceptances.erase(at);
          return;
        }
      case Acceptance::Step::linked: {
        const std::lock_guard lock(mutex);
        // Two connections of one process may both have been welcome: the first to confirm is the link.
        if (!find(at->hello().from.process)) add(at->hello().from, at->take(), at->pidHere());
        acceptances.erase(at);
        return;
      }
      case Acceptance::Step::failed:
        if (at->error()) recordRefusal(std::nullopt, at->pidHere(), *at->error());
        acceptances.erase(at);
        return;
    }
  }
}

void Links::State::advanceAll(const PollSet& set) {
  std::size_t index = 2;
  for (auto at = acceptances.begin(); index < 2 + set.acceptances; ++index) {
    const auto next = std::next(at);
    if (set.polled[index].revents != 0 || at->deadline().passed()) advance(at);
    at = next;
  }
}

// Links.

void Links::State::serve(Link& link, bool hungUp) {
  {
    const std::lock_guard lock(mutex);
    if (link.outbox.frames() > 0) flush(link);
  }
  // After a hang-up all that was sent before is still read: there is an end to it.
  for (int reads = 0; hungUp || reads < kReadsInARow; ++reads) {
    switch (link.inbox.read(link.socket.get())) {
      case frames::Inbox::Read::closed:
        end(link);
        return;
      case frames::Inbox::Read::nothing:
        if (hungUp) end(link);
        return;
      case frames::Inbox::Read::some:
        if (!take(link)) {
          end(link);
          return;
        }
    }
    const std::lock_guard lock(mutex);
    if (!hungUp && link.messages.size() >= kMostMessages) return;
  }
}

/// Delivers the frames that have come whole. False if they are junk.
bool Links::State::take(Link& link) {
  for (;;) {
    Result<std::optional<frames::Frame>> frame = link.inbox.next();
    if (!frame) {
      log(LogLevel::warn, "LINKS", -1, pidText(link.peer.entry_, link.peer.pidHere_), ": ", frame.error().message());
      return false;
    }
    if (!*frame) return true;
    deliver(link, std::move(**frame));
  }
}

void Links::State::deliver(Link& link, frames::Frame frame) {
  const std::lock_guard lock(mutex);
  if (frame.kind == frames::FrameKind::message) {
    if (std::optional<frames::MessageFrame> message = frames::readMessage(frame.body)) {
      link.messages.push_back(std::move(*message));
    }
  } else if (std::optional<frames::HeapFrame> offer = frames::readHeap(frame.body)) {
    // A heap is offered once; device ordinals bound how many there can be.
    if (link.heaps.size() < static_cast<std::size_t>(kDevices)) {
      link.heaps.try_emplace(offer->id, RemoteHeap{*offer, std::move(frame.descriptor), false, nullptr, std::nullopt});
    }
  }
  changed.notify_all();
}

void Links::State::end(Link& link) {
  {
    const std::lock_guard lock(mutex);
    link.socket.reset();
    link.process.reset();
    link.outbox.clear();
    link.peer.gone_.store(true, std::memory_order_release);
    changed.notify_all();
  }
  log(LogLevel::trace, "LINKS", -1, pidText(link.peer.entry_, link.peer.pidHere_), " is gone");
  const std::lock_guard lock(watcherMutex);
  for (auto at = watchers.begin(); at != watchers.end();) {
    const auto [handle, watcher] = *at;  // a copy: watchers may take themselves and others off
    watcher(link.peer);
    at = watchers.upper_bound(handle);
  }
}

}  // namespace symccl
