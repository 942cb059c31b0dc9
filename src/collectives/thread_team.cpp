#include "collectives/thread_team.hpp"

#include "bootstrap/quiet_thread.hpp"

namespace symccl {

ThreadTeam::~ThreadTeam() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  called_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadTeam::run(int parts, const std::function<void(int)>& work) {
  std::unique_lock mine(caller_, std::defer_lock);
  if (parts < 2 || forkGeneration() != forkGeneration_ || !mine.try_lock()) {
    for (int part = 0; part < parts; ++part) work(part);
    return;
  }
  while (static_cast<int>(helpers_.size()) < parts - 1) {
    Result<std::thread> helper = startQuietThread("symccl-help", [this] { help(); });
    if (!helper) break;
    helpers_.push_back(std::move(*helper));
  }
  {
    std::lock_guard lock(mutex_);
    work_ = &work;
    parts_ = parts;
    next_.store(0, std::memory_order_relaxed);
    open_ = true;
    ++round_;
  }
  called_.notify_all();
  takeParts();
  std::unique_lock lock(mutex_);
  open_ = false;
  finished_.wait(lock, [this] { return inside_ == 0; });
}

void ThreadTeam::takeParts() {
  for (int part = next_.fetch_add(1); part < parts_; part = next_.fetch_add(1)) (*work_)(part);
}

void ThreadTeam::help() {
  std::unique_lock lock(mutex_);
  for (std::uint64_t seen = 0;; seen = round_) {
    called_.wait(lock, [&] { return ending_ || (open_ && round_ != seen); });
    if (ending_) return;
    ++inside_;
    lock.unlock();
    takeParts();
    lock.lock();
    if (--inside_ == 0) finished_.notify_one();
  }
}

ThreadTeam& ThreadTeam::ofProcess() {
  static ThreadTeam& team = *new ThreadTeam;  // its threads end with the process
  return team;
}

}  // namespace symccl
