// Who drives the engine of a lane: a thread that waits for a request, else the lane's worker. docs/protocol.md,
// section 5.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "p2p/engine.hpp"
#include "protocol/request.hpp"

namespace symccl {

/// At most one thread at a time has the engine. New messages come through a local inbox, so that nobody waits for it.
class Lane final : public Driver {
 public:
  explicit Lane(Group& group) : group_(group), engine_(group) {}

  /// Starts `messages`, or ends them with the sticky error. Does not wait for anything but a driver's local lock.
  void start(std::vector<OpenMessage> messages);
  void drive(const detail::RequestState& request, Deadline deadline) override;
  /// See MessageLane::stop().
  void stop(const Error& error);
  MessageCounters counters() const { return engine_.ledger().counters(); }

 private:
  class Inside;
  using Lock = std::unique_lock<std::mutex>;

  /// Drives until `leave()` holds or `deadline` has passed. The caller has the engine and no lock.
  template <class Leave>
  void work(const Leave& leave, Deadline deadline);
  /// One step, which takes the inbox.
  void pass();
  void settle(WaitEnd end);
  void takeInbox();
  /// Gives the engine back: to a thread that waits for its turn, or to the worker if there is something to drive for.
  void release(Lock& lock);
  /// Waits for the engine or for the end of the request, whichever is first.
  void awaitTurn(Lock& lock, const detail::RequestState& request, Deadline deadline);
  void tellWaiting();

  void callWorker();
  void startWorker();
  void attend();
  void sleepUntilCalled(Lock& lock);

  Group& group_;
  Engine engine_;  // of whoever set driving_

  std::mutex mutex_;
  bool driving_ = false;            // guarded by mutex_
  bool unattended_ = false;         // guarded by mutex_: nobody drives, and there is something to drive for
  int inside_ = 0;                  // guarded by mutex_: threads in start() and drive()
  std::optional<Error> stopped_;    // guarded by mutex_
  std::vector<OpenMessage> inbox_;  // guarded by mutex_
  std::uint64_t issued_ = 0;        // guarded by mutex_
  std::thread worker_;              // guarded by mutex_
  bool workerAsleep_ = false;       // guarded by mutex_
  bool called_ = false;             // guarded by mutex_
  std::condition_variable turn_;    // waiting threads: the engine is free or a request has ended
  std::condition_variable calls_;   // the worker
  std::condition_variable left_;    // stop(): nobody is inside
  // Read by the driver between two steps.
  std::atomic<bool> inboxFilled_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<int> waiting_{0};  // threads that wait for their turn
};

}  // namespace symccl
