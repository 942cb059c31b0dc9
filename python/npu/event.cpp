#include "event.hpp"

#include <c10/util/Exception.h>

#include <algorithm>

namespace symccl::npu {

void Event::record(const c10::Stream& stream) {
  PendingList pending = pendingOn(stream);
  const std::lock_guard lock(mutex_);
  recorded_ = Clock::now();
  pending_ = std::move(pending);
}

bool Event::query() {
  const PendingList list = pending();
  return std::all_of(list.begin(), list.end(), [](const auto& piece) { return piece->ended().has_value(); });
}

void Event::synchronize() {
  for (const auto& piece : pending()) piece->wait();
}

Clock::time_point Event::time() {
  Clock::time_point last;
  PendingList list;
  {
    const std::lock_guard lock(mutex_);
    last = recorded_;
    list = pending_;
  }
  for (const auto& piece : list) {
    const auto end = piece->ended();
    TORCH_CHECK(end, "Both events must be completed before calculating elapsed time.");
    last = std::max(last, *end);
  }
  return last;
}

PendingList Event::pending() {
  const std::lock_guard lock(mutex_);
  return pending_;
}

}  // namespace symccl::npu
