// Who drives the engine of a lane: a thread that waits for a request, else the lane's worker. docs/protocol.md,
// section 5.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "p2p/engine.hpp"
#include "protocol/request.hpp"

namespace symccl {

/// At most one thread at a time has the engine. New messages come through a local inbox, so that nobody waits for it.
/// Requests are told of their end while nobody has the engine because of them: a callback may use the lane, and destroy
/// it.
class Lane final : public Driver, public std::enable_shared_from_this<Lane> {
 public:
  explicit Lane(Group& group) : group_(group), engine_(group) {}

  /// Starts `messages`, or ends them with the sticky error. Waits for nothing but a local lock. The caller holds a
  /// reference.
  void start(std::vector<OpenMessage> messages);
  void drive(const detail::RequestState& request, Deadline deadline) override;
  /// See MessageLane::stop(). Afterwards the group is not touched any more.
  void stop(const Error& error);
  MessageCounters counters() const { return engine_.ledger().counters(); }

 private:
  using Lock = std::unique_lock<std::mutex>;

  /// Drives until a message has ended, `leave()` holds or `deadline` has passed. The caller has the engine and no lock.
  template <class Leave>
  void work(const Leave& leave, Deadline deadline);
  /// One step, which takes the inbox.
  void pass();
  void settle(WaitEnd end);
  void takeInbox();
  /// Gives the engine back: to a thread that waits for its turn, or to the worker if there is something to drive for.
  /// Then tells the requests that have ended, without the lock; afterwards the lane may have been stopped.
  void handBack(Lock& lock);
  /// Waits until the engine may be free or the request may have ended.
  void awaitTurn(Lock& lock, Deadline deadline);
  void passOn();
  /// It looks at what it leaves for.
  void wakeDriver();

  void callWorker();
  void startWorker();
  void attend();
  bool makesWay() const { return waiting_.load(std::memory_order_acquire) > 0 || !engine_.busy(); }
  void sleepUntilCalled(Lock& lock);

  Group& group_;
  Engine engine_;  // of whoever set driving_

  std::mutex mutex_;
  bool driving_ = false;            // guarded by mutex_
  bool unattended_ = false;         // guarded by mutex_: nobody drives, and there is something to drive for
  std::optional<Error> stopped_;    // guarded by mutex_
  std::vector<OpenMessage> inbox_;  // guarded by mutex_
  std::uint64_t issued_ = 0;        // guarded by mutex_
  std::thread worker_;              // guarded by mutex_
  bool workerAsleep_ = false;       // guarded by mutex_
  bool called_ = false;             // guarded by mutex_
  std::condition_variable turn_;    // waiting threads: the engine is free or a request has ended
  std::condition_variable calls_;   // the worker
  std::condition_variable free_;    // stop(): nobody has the engine
  // Read by the driver between two steps.
  std::atomic<bool> inboxFilled_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<int> waiting_{0};  // threads that wait for their turn; written under mutex_
};

}  // namespace symccl
