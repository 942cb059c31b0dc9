#include "work.hpp"

#include <ATen/core/jit_type.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

#include "callback_threads.hpp"
#include "errors.hpp"
#include "interrupt.hpp"

namespace symccl::pytorch {
namespace {

void mark(c10::ivalue::Future& future, const std::vector<at::Tensor>& outputs, std::exception_ptr failure) {
  if (failure) {
    future.setError(std::move(failure));
  } else {
    future.markCompleted(c10::IValue(outputs));
  }
}

}  // namespace

OperationWork::OperationWork(int rank, const Call& call, std::uint64_t sequence)
    : Work(rank, call.type, at::hasCallbacks() ? call.title : nullptr, call.inputs),
      name_(call.name()),
      sequence_(sequence) {}

void OperationWork::reportTo(std::shared_ptr<CompletionHook> hook) {
  hook_ = std::move(hook);
  hook_->started();
  start_ = CompletionHook::Clock::now();
}

void OperationWork::reportEnd() {
  if (hook_) std::exchange(hook_, nullptr)->ended(opType_, sequence_, start_);
}

void OperationWork::start(const std::shared_ptr<Communicator>& communicator, std::vector<Request> requests,
                          Buffers buffers, std::chrono::milliseconds timeout) {
  communicator_ = communicator;
  timeout_ = timeout;
  buffers_ = std::move(buffers);
  open_ = requests.size();
  {
    std::lock_guard lock(mutex_);
    requests_ = requests;
    started_ = true;
  }
  if (requests.empty()) complete(nullptr);
  for (const Request& request : requests) {
    request.onDone([work = c10::intrusive_ptr<OperationWork>::reclaim_copy(this)](const Status& status) {
      work->requestEnded(status);
    });
  }
}

bool OperationWork::wait(std::chrono::milliseconds timeout) {
  if (!isCompleted()) {
    {
      std::lock_guard lock(mutex_);
      TORCH_CHECK(started_, "symccl: wait() on a ", name_, " of a batch that has not been started yet");
    }
    timeout > kNoTimeout ? waitAtMost(timeout) : waitForRequests();
  }
  std::exception_ptr failure;
  {
    std::unique_lock lock(mutex_);
    cv_.wait(lock, [this] { return completed_; });
    failure = exception_;
  }
  if (failure) std::rethrow_exception(failure);
  return true;
}

// Waiting in the requests themselves, not for the thread that ends them, saves a hand-off between threads: who waits
// for a request does its work.
void OperationWork::waitForRequests() {
  std::exception_ptr failure;
  for (const Request& request : requests_) {
    const Status status = waitInterruptibly(communicator_, request);
    if (!status && !failure) failure = toException(status.error(), timeout_);
  }
  complete(failure);
}

// That work may take longer than the caller wants to wait, so here another thread must do it.
void OperationWork::waitAtMost(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::unique_lock lock(mutex_);
  while (!completed_) {
    const auto now = std::chrono::steady_clock::now();
    TORCH_CHECK_WITH(DistBackendError, now < deadline, "symccl: Timed out waiting ", timeout.count(), "ms for ", name_,
                     " to end; it goes on");
    cv_.wait_until(lock, std::min(now + kSignalSlice, deadline));
    if (completed_) continue;
    lock.unlock();
    if (signalRaised()) rethrowRaised();
    lock.lock();
  }
}

void OperationWork::requestEnded(const Status& status) {
  std::exception_ptr failure;
  {
    std::lock_guard lock(mutex_);
    if (!status && !failure_) failure_ = toException(status.error(), timeout_);
    failure = failure_;
  }
  if (--open_ == 0) complete(failure);
}

void OperationWork::complete(std::exception_ptr failure) {
  {
    std::lock_guard lock(mutex_);
    if (completing_) return;
    completing_ = true;
  }
  if (!failure) {
    try {
      buffers_.copyBack();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  buffers_ = Buffers(true);
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    if (end_) end_->set();
  }
  finish(failure);
  reportEnd();
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    std::lock_guard lock(mutex_);
    if (future_ && !future_->completed()) future = future_;
  }
  if (!future) return;
  runOnCallbackThread([future, outputs = outputs_, failure] { mark(*future, outputs, failure); });
}

std::shared_ptr<const OperationWork::End> OperationWork::watchEnd() {
  std::lock_guard lock(mutex_);
  if (!end_) {
    end_ = std::make_shared<End>();
    if (ended_ || completed_) end_->set();
  }
  return end_;
}

int OperationWork::sourceRank() const { return requests_.empty() ? Work::sourceRank() : requests_.front().source(); }

c10::intrusive_ptr<c10::ivalue::Future> OperationWork::getFuture() {
  std::lock_guard lock(mutex_);
  if (!future_) {
    static const c10::TypePtr type = c10::ListType::create(c10::TensorType::get());
    future_ = c10::make_intrusive<c10::ivalue::Future>(type);
    if (completed_) mark(*future_, outputs_, exception_);
  }
  return future_;
}

}  // namespace symccl::pytorch
