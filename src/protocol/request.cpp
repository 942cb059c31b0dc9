#include "protocol/request.hpp"

#include "base/checks.hpp"

namespace symccl {

namespace detail {

void RequestState::finish(Status status, int source, std::size_t bytes) {
  std::vector<std::function<void(const Status&)>> callbacks;
  {
    std::lock_guard lock(mutex_);
    if (ending_) return;
    ending_ = true;
    status_ = std::move(status);
    source_ = source;
    bytes_ = bytes;
    callbacks.swap(callbacks_);
    done_.store(true, std::memory_order_release);
  }
  ended_.notify_all();
  for (auto& callback : callbacks) callback(status_);
}

Status RequestState::wait(Deadline deadline) {
  if (!done()) {
    if (const std::shared_ptr<Driver> driver = driver_.lock()) driver->drive(*this, deadline);
  }
  if (!done()) {
    std::unique_lock lock(mutex_);
    if (!ended_.wait_until(lock, Deadline::Clock::now() + deadline.left(), [&] { return done(); })) {
      return Error(Code::timeout, "the wait for an operation timed out; the operation goes on");
    }
  }
  return status_;
}

void RequestState::onDone(std::function<void(const Status&)> callback) {
  {
    std::lock_guard lock(mutex_);
    if (!ending_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback(status_);
}

}  // namespace detail

Request::Request(std::shared_ptr<detail::RequestState> state) : state_(std::move(state)) {}

bool Request::done() const { return state_->done(); }

Status Request::wait(std::optional<std::chrono::milliseconds> wait) const {
  return state_->wait(wait ? Deadline::in(*wait) : Deadline::never());
}

void Request::onDone(std::function<void(const Status&)> callback) const { state_->onDone(std::move(callback)); }

int Request::source() const { return state_->source(); }

std::size_t Request::bytes() const { return state_->bytes(); }

}  // namespace symccl
