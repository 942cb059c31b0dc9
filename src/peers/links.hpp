// Links: one connected Unix socket to each process of this host that shares a communicator with this one.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/deadline.hpp"
#include "memory/heap.hpp"
#include "memory/mapped_heap.hpp"
#include "peers/process_entry.hpp"
#include "symccl/result.hpp"

namespace symccl {

/// Another process (or this one, for ranks that are threads of one process). Never destroyed.
class Peer {
 public:
  /// `pidHere`: the process's id in this process's pid namespace, or 0 where it has none.
  Peer(ProcessEntry entry, bool self, int pidHere) : entry_(std::move(entry)), self_(self), pidHere_(pidHere) {}
  const ProcessEntry& entry() const { return entry_; }
  bool self() const { return self_; }
  /// Set when its link has closed: the process is dead (or exited). A relaxed load.
  const std::atomic<bool>& gone() const { return gone_; }
  /// "rank 3 (pid 811) is gone", " is stopped" or " is running"; where the pid is of another namespace it says so, and
  /// where the state cannot be seen from here it says that the link is open. `knownGone`: others have seen it go, which
  /// this process's own link and /proc may show a little later.
  std::string describe(int rank, bool knownGone = false) const;

 private:
  friend class Links;
  const ProcessEntry entry_;
  const bool self_;
  const int pidHere_;
  std::atomic<bool> gone_{false};
};

/// The process's links, its listening socket and its sentinel thread, which starts with the first link. In a forked
/// child a fresh one is made on first use, and the parent's descriptors are closed at the fork. Thread-safe.
///
/// What blocks does so until `deadline`, and at least every 50 ms asks `interrupted` (which may be empty), whose error
/// ends it. Errors name the pid and the reason: Code::timeout, Code::dead (the peer is gone), Code::system (also: no
/// file descriptor left, on either side), Code::invalid (another user, another version), Code::forked.
class Links {
 public:
  static Result<Links*> instance();

  const ProcessEntry& self() const;

  /// The peer process of `entry`, linked: connects if this process's id is the smaller, else waits to be connected. So
  /// both sides call it. For an entry of this process, the peer that stands for itself.
  Result<Peer*> reach(const ProcessEntry& entry, Deadline deadline, const std::function<Status()>& interrupted);

  /// Where heap `id` of `peer` is mapped here: sends `mine` to the peer if it has not been sent on this link yet, and
  /// waits for the peer's. Both sides call it. For this process itself: the base of its own heap `id`, once some thread
  /// has passed that one as `mine`. Also Code::memory and Code::corrupt, from mapping the heap.
  struct Mapping {
    std::byte* base;
    std::size_t bytes;
    bool symmetric;
    MappedHeap* mapped;  ///< null for this process's own heaps
  };
  Result<Mapping> exchangeHeaps(Peer& peer, Heap& mine, const Uuid& id, Deadline deadline,
                                const std::function<Status()>& interrupted);

  /// Calls `watcher` (on the sentinel thread, briefly, must not block) for each peer that goes from now on; gone() is
  /// set before. Returns a handle for unwatch(), which returns only when no call is running (but may be called from
  /// within one).
  using Watcher = std::function<void(Peer&)>;
  int watch(Watcher watcher);
  void unwatch(int handle);

  /// Sends `message` to `peer` / takes the oldest message with this `topic` from `peer`, also one that arrived
  /// before it went; used to create communicators among linked processes and for checks outside collectives. post()
  /// never blocks. Bounded: topics of at most 256 bytes, messages of at most 64 KiB, at most 1024 on their way and 1024
  /// waiting to be collected; Code::system if the peer takes no more.
  Status post(Peer& peer, const std::string& topic, const Bytes& message);
  Result<Bytes> collect(Peer& peer, const std::string& topic, Deadline deadline,
                        const std::function<Status()>& interrupted);

 private:
  struct State;
  explicit Links(std::unique_ptr<State> state);
  ~Links();
  static void forgetInChild();
  std::unique_ptr<State> state_;
};

}  // namespace symccl
