#include "work.hpp"

#include <ATen/core/jit_type.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include <algorithm>

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

void OperationWork::start(std::vector<Request> requests, Buffers buffers, std::chrono::milliseconds timeout) {
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
  if (!isCompleted()) waitForRequests(timeout);
  std::exception_ptr failure;
  {
    std::unique_lock lock(mutex_);
    cv_.wait(lock, [this] { return completed_; });
    failure = exception_;
  }
  if (failure) std::rethrow_exception(failure);
  return true;
}

// Waiting in the requests themselves, not for the thread that ends them, saves a hand-off between threads.
void OperationWork::waitForRequests(std::chrono::milliseconds timeout) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  {
    std::lock_guard lock(mutex_);
    TORCH_CHECK(started_, "symccl: wait() on a ", name_, " of a batch that has not been started yet");
  }
  std::exception_ptr failure;
  for (const Request& request : requests_) {
    std::optional<std::chrono::milliseconds> limit;
    if (timeout > kNoTimeout) {
      const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
      limit = std::max(timeout - passed, std::chrono::milliseconds(0));
    }
    const Status status = waitInterruptibly(request, limit);
    TORCH_CHECK_WITH(DistBackendError, status || request.done(), "symccl: Timed out waiting ", timeout.count(),
                     "ms for ", name_, " to end; it goes on");
    if (!status && !failure) failure = toException(status.error(), timeout_);
  }
  complete(failure);
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
  finish(failure);
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    std::lock_guard lock(mutex_);
    if (future_ && !future_->completed()) future = future_;
  }
  if (!future) return;
  runOnCallbackThread([future, outputs = outputs_, failure] { mark(*future, outputs, failure); });
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
