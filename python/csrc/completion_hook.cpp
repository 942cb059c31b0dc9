#include "completion_hook.hpp"

#include "callback_threads.hpp"

namespace symccl::pytorch {

void CompletionHook::started() {
  std::lock_guard lock(mutex_);
  ++open_;
}

void CompletionHook::ended(c10d::OpType type, std::uint64_t sequence, Clock::time_point start) {
  const auto end = Clock::now();
  auto report = std::make_shared<c10d::WorkInfo>(type, sequence, start, end, end - start);
  runOnCallbackThread([self = shared_from_this(), report = std::move(report)] {
    self->function_(report);
    std::lock_guard lock(self->mutex_);
    if (--self->open_ == 0) self->idle_.notify_all();
  });
}

void CompletionHook::wait() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return open_ == 0; });
}

}  // namespace symccl::pytorch
