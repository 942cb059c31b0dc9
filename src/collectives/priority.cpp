#include "collectives/priority.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace symccl {

namespace {

constexpr std::chrono::milliseconds kLongestPause{1};
constexpr int kMostPauses = 50;

std::atomic<int> urgent{0};

// Never destroyed: workers may still run while the process ends.
struct Ends {
  std::mutex mutex;
  std::condition_variable ended;
};
Ends& ends() {
  static Ends& all = *new Ends;
  return all;
}

}  // namespace

UrgentOperation::UrgentOperation() { urgent.fetch_add(1, std::memory_order_relaxed); }

UrgentOperation::~UrgentOperation() {
  if (urgent.fetch_sub(1, std::memory_order_relaxed) != 1) return;
  { const std::lock_guard lock(ends().mutex); }  // nobody is between its look and its sleep
  ends().ended.notify_all();
}

bool GivingWay::anyUrgent() { return urgent.load(std::memory_order_relaxed) != 0; }

void GivingWay::pauseNow() {
  if (pauses_.fetch_add(1, std::memory_order_relaxed) >= kMostPauses) return;
  std::unique_lock lock(ends().mutex);
  ends().ended.wait_for(lock, kLongestPause, [] { return !anyUrgent(); });
}

}  // namespace symccl
