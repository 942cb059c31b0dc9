// Behind Links: what its callers and the sentinel share.
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "bootstrap/process_descriptor.hpp"
#include "bootstrap/stream.hpp"
#include "peers/acceptance.hpp"
#include "peers/frames.hpp"
#include "peers/links.hpp"

namespace symccl {

inline constexpr std::size_t kMostMessages = 1024;  // on their way on one link; waiting to be collected

/// One lock for everything that callers touch: links are used while communicators are made, never in an operation.
struct Links::State {
  /// A heap that the peer has offered. Whoever first asks for it maps it, on its own thread: the sentinel must not
  /// wait.
  struct RemoteHeap {
    frames::HeapFrame offer;
    FileDescriptor memory;
    bool mapping = false;  ///< a thread is at it
    std::unique_ptr<MappedHeap> mapped;
    std::optional<Error> failed;
  };

  struct Link {
    Link(ProcessEntry entry, bool self, int pidHere) : peer(std::move(entry), self, pidHere) {}
    Peer peer;
    ProcessDescriptor socket;  ///< closed by the sentinel only
    ProcessDescriptor
        process;  ///< a pidfd, where the system gives one: tells of a death even if a copy of the socket lives on
    frames::Outbox outbox;
    bool congested = false;
    frames::Inbox inbox;  ///< the sentinel's
    std::deque<frames::MessageFrame> messages;
    std::map<Uuid, RemoteHeap> heaps;
    std::set<Uuid> offered;          ///< heaps of this process that were sent
    std::map<Uuid, Heap*> ownHeaps;  ///< of the link that stands for this process
  };

  /// Why a process that wanted a link did not get it: its counterpart here, which waits for it, is told, once.
  struct Refusal {
    std::optional<Uuid> process;  ///< else known by its pid alone
    int pidHere;                  ///< or kAnyone
    Error reason;
    Deadline forget;
  };

  static constexpr int kAnyone = -1;

  State(ProcessEntry entry, ProcessDescriptor listener, ProcessDescriptor wake, FileDescriptor reserve);

  // links_state.cpp
  Status usable() const;
  Link* find(const Uuid& process);
  Link& add(const ProcessEntry& entry, ProcessDescriptor socket, int pidHere);
  std::optional<Error> takeRefusal(const ProcessEntry& entry, int pidHere);
  Error goneError(const Link& link) const;
  Status startSentinel();
  void wakeSentinel();
  Status enqueue(Link& link, Bytes frame, int descriptor);
  void flush(Link& link);
  /// Waits for `changed` for at most 50 ms and asks `interrupted`, without the lock. At the deadline Code::timeout:
  /// which process, its state, and `late`.
  Status waitForChange(std::unique_lock<std::mutex>& lock, Deadline deadline, const Interrupted& interrupted,
                       const ProcessEntry& entry, int pidHere, const std::string& late);

  // heap_exchange.cpp
  Result<Mapping> ownHeap(std::unique_lock<std::mutex>& lock, Link& link, Heap& mine, const Uuid& id, Deadline deadline,
                          const Interrupted& interrupted);
  void mapHeap(std::unique_lock<std::mutex>& lock, RemoteHeap& heap);

  // sentinel.cpp: the sentinel's thread
  void watchAll();
  struct PollSet;
  void collectPollSet(PollSet& set);
  void drainWake();
  void acceptAll();
  void refuseForLackOfDescriptors();
  void advance(std::list<Acceptance>::iterator at);
  void advanceAll(const PollSet& set);
  Status judge(const Acceptance& one);
  void recordRefusal(std::optional<Uuid> process, int pidHere, const Error& reason);
  void serve(Link& link, bool hungUp);
  bool take(Link& link);
  void deliver(Link& link, frames::Frame frame);
  void end(Link& link);

  const ProcessEntry self;
  const std::uint64_t generation;
  const ProcessDescriptor listener;
  const ProcessDescriptor wake;  ///< eventfd
  Links* inherited = nullptr;    ///< the parent process's, kept so that nothing of it is lost from sight

  std::mutex mutex;
  std::condition_variable changed;
  std::map<Uuid, std::unique_ptr<Link>> links;  // guarded by mutex; entries stay for ever
  std::set<Uuid> connecting;                    // guarded by mutex; some thread is at it
  std::deque<Refusal> refusals;                 // guarded by mutex
  bool sentinelRuns = false;                    // guarded by mutex

  std::recursive_mutex watcherMutex;  // held while watchers are called; taken without `mutex`
  std::map<int, Watcher> watchers;    // guarded by watcherMutex

  std::list<Acceptance> acceptances;  // the sentinel's
  FileDescriptor reserve;             // the sentinel's: given up to answer those for whom there is no descriptor
  Deadline acceptAgain = Deadline::in(std::chrono::seconds(0));  // the sentinel's
};

}  // namespace symccl
