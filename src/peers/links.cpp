#include "peers/links.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>

#include "base/checks.hpp"
#include "base/fork.hpp"
#include "bootstrap/address.hpp"
#include "peers/connect_link.hpp"
#include "peers/links_state.hpp"

namespace symccl {
namespace {

std::atomic<Links*> current{nullptr};
std::atomic<Links*> inheritedByChild{nullptr};

}  // namespace

Links::Links(std::unique_ptr<State> state) : state_(std::move(state)) {}
Links::~Links() = default;

// In a forked child, before fork() returns there: no lock, no allocation.
void Links::forgetInChild() {
  if (Links* parents = current.exchange(nullptr, std::memory_order_relaxed)) {
    inheritedByChild.store(parents, std::memory_order_relaxed);
  }
}

Result<Links*> Links::instance() {
  if (Links* made = current.load(std::memory_order_acquire)) return made;
  onForkInChild(forgetInChild);
  ProcessEntry entry = ProcessEntry::ofThisProcess();
  Result<Listener> listener = listenAt(Address::abstract(handshake::socketName(entry.process)));
  if (!listener) return listener.error().in("links to other processes");
  FileDescriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return systemError("eventfd").in("links to other processes");
  FileDescriptor reserve(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!reserve) return systemError("opening /dev/null").in("links to other processes");
  auto state = std::make_unique<State>(std::move(entry), std::move(listener->socket),
                                       ProcessDescriptor(std::move(wake)), std::move(reserve));
  state->inherited = inheritedByChild.load(std::memory_order_relaxed);

  // Two threads may come here at once: one's is kept, the other's was told to nobody. No lock, which a fork could leave
  // taken.
  Links* expected = nullptr;
  auto* fresh = new Links(std::move(state));
  if (current.compare_exchange_strong(expected, fresh, std::memory_order_acq_rel)) return fresh;
  delete fresh;
  return expected;
}

const ProcessEntry& Links::self() const { return state_->self; }

Result<Peer*> Links::reach(const ProcessEntry& entry, Deadline deadline, const std::function<Status()>& interrupted) {
  State& state = *state_;
  if (Status status = state.usable(); !status) return status.error();
  if (entry.process == state.self.process) {
    const std::lock_guard lock(state.mutex);
    return &state.find(entry.process)->peer;
  }
  if (Status status = state.startSentinel(); !status) return status.error();

  const int pidHere = pidHereOf(entry, state.self);
  const bool connects = state.self.process < entry.process;
  std::unique_lock lock(state.mutex);
  for (;;) {
    if (State::Link* link = state.find(entry.process)) {
      if (link->peer.gone()) return state.goneError(*link);
      return &link->peer;
    }
    if (std::optional<Error> refusal = state.takeRefusal(entry, pidHere))
      return refusal->in("link to " + pidText(entry, pidHere));
    if (connects && state.connecting.insert(entry.process).second) {
      lock.unlock();
      Result<ConnectedLink> made = connectLink(state.self, entry, deadline, interrupted);
      lock.lock();
      state.connecting.erase(entry.process);
      state.changed.notify_all();
      if (!made) return made.error();
      return &state.add(entry, std::move(made->socket), made->pidHere).peer;
    }
    if (!connects && stateText(pidHere, false) == " is gone") {
      return Error(Code::dead, pidText(entry, pidHere) + " is gone; it was not linked yet");
    }
    const Status waited = state.waitForChange(lock, deadline, interrupted, entry, pidHere,
                                              connects ? "no link was made" : "it did not ask for a link");
    if (!waited) return waited.error();
  }
}

int Links::watch(Watcher watcher) {
  // Never the same twice, also not in a forked child, where a handle of the parent's means nothing.
  static std::atomic<int> next{1};
  if (!state_->usable()) return 0;
  const std::lock_guard lock(state_->watcherMutex);
  const int handle = next.fetch_add(1, std::memory_order_relaxed);
  state_->watchers.emplace(handle, std::move(watcher));
  return handle;
}

void Links::unwatch(int handle) {
  if (!state_->usable()) return;  // in a forked child no watcher is ever called, and the lock may be held for ever
  const std::lock_guard lock(state_->watcherMutex);
  state_->watchers.erase(handle);
}

}  // namespace symccl
