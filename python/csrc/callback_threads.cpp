#include "callback_threads.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace symccl::pytorch {
namespace {

constexpr auto kIdleTime = std::chrono::seconds(10);
constexpr auto kEndTime = std::chrono::seconds(5);

class CallbackThreads {
 public:
  void post(std::function<void()> job) {
    {
      std::unique_lock lock(mutex_);
      if (!ending_) {
        jobs_.push_back(std::move(job));
        if (jobs_.size() > idle_) {
          ++threads_;
          std::thread([this] { serve(); }).detach();
        }
        changed_.notify_one();
        return;
      }
    }
    job();
  }

  void end() {
    std::unique_lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
    // A callback that never returns must not keep the process from exiting.
    ended_.wait_for(lock, kEndTime, [this] { return threads_ == 0; });
  }

 private:
  void serve() {
    pthread_setname_np(pthread_self(), "symccl-callback");
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      changed_.wait_for(lock, kIdleTime, [this] { return !jobs_.empty() || ending_; });
      --idle_;
      if (jobs_.empty()) break;
      std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      job = nullptr;
      lock.lock();
    }
    if (--threads_ == 0) ended_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_, ended_;
  std::deque<std::function<void()>> jobs_;
  std::size_t idle_ = 0, threads_ = 0;
  bool ending_ = false;
};

// Never destroyed: its threads are detached. A forked child has none of them and starts afresh; no lock, since a lock
// that another thread of the parent held at the fork would stay locked.
CallbackThreads& instance() {
  struct Owned {
    pid_t process = getpid();
    CallbackThreads threads;
  };
  static std::atomic<Owned*> current{nullptr};
  Owned* owned = current.load(std::memory_order_acquire);
  if (owned == nullptr || owned->process != getpid()) {
    auto* fresh = new Owned;
    if (current.compare_exchange_strong(owned, fresh, std::memory_order_acq_rel)) {
      owned = fresh;
    } else {
      delete fresh;
    }
  }
  return owned->threads;
}

}  // namespace

void runOnCallbackThread(std::function<void()> job) { instance().post(std::move(job)); }

void endCallbackThreads() { instance().end(); }

}  // namespace symccl::pytorch
