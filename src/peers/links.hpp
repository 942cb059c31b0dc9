// Links: one connected Unix socket to each process of this host that shares a communicator with this one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/host.hpp"
#include "bootstrap/wire.hpp"
#include "memory/heap.hpp"
#include "memory/mapped_heap.hpp"
#include "symccl/result.hpp"

namespace symccl {

/// How a process is told to others (through a store).
struct ProcessEntry {
  Uuid process;           ///< random; its link socket is the abstract address "symccl-<hex>"
  std::uint32_t pid = 0;  ///< as seen in its own pid namespace
  std::uint64_t pidNamespace = 0;
  std::string host;  ///< hostIdentity()

  void write(WireWriter& out) const;
  static ProcessEntry read(WireReader& in);
};

/// Another process (or this one, for ranks that are threads of one process). Never destroyed.
class Peer {
 public:
  explicit Peer(ProcessEntry entry, bool self) : entry_(std::move(entry)), self_(self) {}
  const ProcessEntry& entry() const { return entry_; }
  bool self() const { return self_; }
  /// Set when its link has closed: the process is dead (or exited). A relaxed load.
  const std::atomic<bool>& gone() const { return gone_; }
  /// "rank 3 (pid 811)", with its state: " is gone", " is stopped", " is running", and a note where the pid is of another namespace.
  std::string describe(int rank) const;

 private:
  friend class Links;
  const ProcessEntry entry_;
  const bool self_;
  std::atomic<bool> gone_{false};
};

/// The process's links, its listening socket and its sentinel thread. Made on first use; in a forked child a fresh one is made, and the parent's
/// descriptors are closed at the fork. Thread-safe.
class Links {
 public:
  static Result<Links*> instance();

  const ProcessEntry& self() const;

  /// The peer process of `entry`, linked: connects if this process's id is the smaller, else waits to be connected. Blocks until `deadline`,
  /// in slices of at most 50 ms between which `interrupted` may end it with an error. Code::timeout, Code::dead (the peer closed), Code::system,
  /// Code::invalid (another user, another version or layout): the sentence names the pid and the reason.
  Result<Peer*> reach(const ProcessEntry& entry, Deadline deadline, const std::function<Status()>& interrupted);

  /// Where heap `id` of `peer` is mapped here: sends `mine` to the peer if it has not been sent on this link yet, and waits for the peer's. Both sides call
  /// it. For a peer that is this process: the own heap's base. Errors as reach().
  struct Mapping {
    std::byte* base;
    std::size_t bytes;
    bool symmetric;
    MappedHeap* mapped;  ///< null for this process's own heaps
  };
  Result<Mapping> exchangeHeaps(Peer& peer, Heap& mine, const Uuid& id, Deadline deadline,
                                const std::function<Status()>& interrupted);

  /// Calls `watcher` (on the sentinel thread, briefly, must not block) for each peer that goes. Returns a handle for unwatch(), which returns only when no
  /// call is running.
  using Watcher = std::function<void(Peer&)>;
  int watch(Watcher watcher);
  void unwatch(int handle);

  /// Sends `message` to `peer` / takes the oldest message with this `topic` from `peer`; used to create communicators among linked processes
  /// and for checks outside collectives. Bounded: messages of at most 64 KiB, at most 1024 waiting.
  Status post(Peer& peer, const std::string& topic, const Bytes& message);
  Result<Bytes> collect(Peer& peer, const std::string& topic, Deadline deadline, const std::function<Status()>& interrupted);

 private:
  struct State;
  explicit Links(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Protocol version and layout, compared in the handshake.
inline constexpr std::uint32_t kLinkVersion = 1;

}  // namespace symccl
