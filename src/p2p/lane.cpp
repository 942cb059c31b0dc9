#include "p2p/lane.hpp"

#include <pthread.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <system_error>

#include "base/checks.hpp"

namespace symccl {

namespace {

// A thread that issues and then waits drives at once, so the worker, while a lane is in use, only looks now and then
// for work that nobody drives; that spares the issuing thread a system call for each message. After a while without
// such work it sleeps until it is called.
constexpr std::chrono::microseconds kLookEvery{250};
constexpr int kLooksBeforeSleep = 80;
// Steps between two readings of the clock while something moves all the time.
constexpr unsigned kStepsPerClock = 32;

}  // namespace

// --- driving ------------------------------------------------------------------------------------------------------

void Lane::takeInbox() {
  if (!inboxFilled_.load(std::memory_order_acquire)) return;
  std::lock_guard lock(mutex_);
  engine_.take(inbox_);
  inboxFilled_.store(false, std::memory_order_relaxed);
}

void Lane::settle(WaitEnd end) {
  if (end == WaitEnd::ownError || end == WaitEnd::memberError) engine_.stop(end);
  if (end == WaitEnd::deadline || engine_.ledger().earliest().passed()) engine_.expire();
  if (group_.failed()) engine_.fail(group_.status().error());
}

template <class Leave>
void Lane::work(const Leave& leave, Deadline deadline) {
  WaitContext& context = group_.pointToPoint();
  for (unsigned steps = 1; !leave() && !engine_.ledger().anyEnded(); ++steps) {
    takeInbox();
    context.deadline = earlier(engine_.ledger().earliest(), deadline);
    // Any member, because all rings are drained; the own one where only messages to itself are open: no death ends
    // those.
    const int member = engine_.needsOthers() ? -1 : group_.rank();
    const WaitEnd end = waitUntil(context, member, [&](Poll poll) {
      return engine_.step(poll) || leave() || inboxFilled_.load(std::memory_order_acquire);
    });
    const bool clock = end != WaitEnd::satisfied || steps % kStepsPerClock == 0;
    if (clock || group_.failed()) settle(end);
    if (clock && deadline.passed()) return;
  }
}

void Lane::pass() {
  takeInbox();
  const WaitEnd end = waitUntil(group_.pointToPoint(), group_.rank(), [&](Poll poll) {
    engine_.step(poll);
    return true;
  });
  if (group_.failed()) settle(end);
}

void Lane::handBack(Lock& lock) {
  while (!inbox_.empty() && !stopped_) {
    lock.unlock();
    pass();
    lock.lock();
  }
  const std::vector<EndedMessage> ended = engine_.takeEnded();
  driving_ = false;
  unattended_ = engine_.busy();
  if (stopped_) {
    free_.notify_all();
  } else {
    passOn();
  }
  if (ended.empty()) return;
  lock.unlock();
  for (const EndedMessage& message : ended) message.request->finish(message.status, message.source, message.bytes);
  lock.lock();
  // A thread that waits for one of them may have taken the engine meanwhile, and be asleep with it.
  if (driving_ && !stopped_) wakeDriver();
  if (waiting_.load(std::memory_order_relaxed) > 0) turn_.notify_all();
}

void Lane::wakeDriver() {
  const std::array own{group_.rank()};
  lookAtBells(group_.pointToPoint(), own);
}

void Lane::passOn() {
  if (waiting_.load(std::memory_order_relaxed) > 0) {
    turn_.notify_all();
  } else if (unattended_) {
    callWorker();
  }
}

void Lane::start(std::vector<OpenMessage> messages) {
  Lock lock(mutex_);
  if (stopped_ || group_.failed()) {
    const Status status = stopped_ ? Status(*stopped_) : group_.status();
    lock.unlock();
    for (OpenMessage& message : messages) Ledger::refuse(group_, message, status.error());
    return;
  }
  for (OpenMessage& message : messages) {
    message.number = ++issued_;
    inbox_.push_back(std::move(message));
  }
  inboxFilled_.store(true, std::memory_order_release);
  if (driving_) {
    wakeDriver();
    return;
  }
  driving_ = true;
  handBack(lock);
}

void Lane::awaitTurn(Lock& lock, Deadline deadline) {
  waiting_.fetch_add(1, std::memory_order_release);
  wakeDriver();  // the worker makes way
  turn_.wait_for(lock, deadline.left());
  waiting_.fetch_sub(1, std::memory_order_release);
}

void Lane::drive(const detail::RequestState& request, Deadline deadline) {
  Lock lock(mutex_);
  while (!request.done() && !stopped_ && !deadline.passed()) {
    if (driving_) {
      awaitTurn(lock, deadline);
      continue;
    }
    driving_ = true;
    lock.unlock();
    work([&] { return request.done() || stopping_.load(std::memory_order_acquire); }, deadline);
    lock.lock();
    handBack(lock);
  }
  // A turn that was given to this thread and not taken goes to the next.
  if (!driving_ && unattended_ && !stopped_) passOn();
}

void Lane::stop(const Error& error) {
  Lock lock(mutex_);
  const bool first = !stopped_;
  if (first) stopped_ = error;
  stopping_.store(true, std::memory_order_release);
  if (first) ring(group_.ownArea().front().pointToPoint);
  turn_.notify_all();
  calls_.notify_all();
  free_.wait(lock, [&] { return !driving_; });
  unattended_ = false;
  engine_.take(inbox_);
  engine_.fail(*stopped_);
  std::thread worker = std::move(worker_);
  handBack(lock);
  lock.unlock();
  if (!worker.joinable()) return;
  if (worker.get_id() == std::this_thread::get_id()) {
    worker.detach();  // a callback ends the lane; the worker's own reference keeps it until it returns
  } else {
    worker.join();
  }
}

// --- the worker ---------------------------------------------------------------------------------------------------

void Lane::callWorker() {
  if (!worker_.joinable()) startWorker();
  if (!workerAsleep_) return;
  called_ = true;
  calls_.notify_one();
}

// Signals are for the program's own threads.
void Lane::startWorker() {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    worker_ = std::thread([self = shared_from_this()] { self->attend(); });
    ::pthread_setname_np(worker_.native_handle(), "symccl-p2p");
  } catch (const std::system_error& error) {
    const Error ignored = group_.fail(
        Error(Code::system, text("communicator '", group_.name(), "' (rank ", group_.rank(), " of ", group_.size(),
                                 "): cannot start the point-to-point worker thread: ", error.what())),
        -1, 0);
    static_cast<void>(ignored);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Lane::sleepUntilCalled(Lock& lock) {
  workerAsleep_ = true;
  calls_.wait(lock, [&] { return stopped_ || called_; });
  workerAsleep_ = false;
  called_ = false;
}

void Lane::attend() {
  Lock lock(mutex_);
  int looks = 0;
  bool worked = false;
  while (!stopped_) {
    if (!worked) calls_.wait_for(lock, kLookEvery);  // time for the issuing thread to wait itself
    worked = unattended_ && !driving_ && !stopped_ && waiting_.load(std::memory_order_relaxed) == 0;
    if (worked) {
      driving_ = true;
      lock.unlock();
      work([this] { return stopping_.load(std::memory_order_acquire) || makesWay(); }, Deadline::never());
      lock.lock();
      handBack(lock);
      looks = 0;
    } else if (++looks == kLooksBeforeSleep) {
      sleepUntilCalled(lock);
      looks = 0;
    }
  }
}

}  // namespace symccl
