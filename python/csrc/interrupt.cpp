#include "interrupt.hpp"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <mutex>

namespace symccl::pytorch {
namespace {

bool isMainThread() {
  if (!Py_IsInitialized()) return false;
  pybind11::gil_scoped_acquire gil;
  const auto threading = pybind11::module_::import("threading");
  return threading.attr("current_thread")().is(threading.attr("main_thread")());
}

thread_local SignalScope* t_scope = nullptr;

}  // namespace

/// Runs on threads that sleep inside a call; see setWaitHook().
struct SignalHook {
  static void run() {
    SignalScope* scope = t_scope;
    if (scope == nullptr || scope->raised_) return;
    if (!signalRaised()) return;
    scope->raised_ = true;
    if (const auto communicator = scope->communicator_.lock()) communicator->abort("a signal interrupted a call");
  }
};

SignalScope::SignalScope(std::weak_ptr<Communicator> communicator)
    : communicator_(std::move(communicator)), outer_(t_scope) {
  static std::once_flag once;
  std::call_once(once, [] { setWaitHook(&SignalHook::run); });
  if (onMainThread()) t_scope = this;
}

SignalScope::~SignalScope() { t_scope = outer_; }

void SignalScope::rethrow() const {
  if (raised_) rethrowRaised();
}

bool onMainThread() {
  thread_local const bool answer = isMainThread();
  return answer;
}

bool signalRaised() {
  if (!onMainThread()) return false;
  pybind11::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0;
}

void rethrowRaised() {
  if (!onMainThread()) return;
  pybind11::gil_scoped_acquire gil;
  if (PyErr_Occurred()) throw pybind11::error_already_set();
}

Status waitInterruptibly(const std::weak_ptr<Communicator>& communicator, const Request& request,
                         std::optional<std::chrono::milliseconds> limit) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const SignalScope scope(communicator);
  while (true) {
    std::chrono::milliseconds slice = kSignalSlice;
    if (limit) {
      const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
      slice = std::clamp(*limit - passed, std::chrono::milliseconds(0), kSignalSlice);
    }
    Status status = request.wait(slice);
    scope.rethrow();
    if (request.done() || slice.count() == 0) return status;
    if (signalRaised()) rethrowRaised();  // another thread does the work, this one slept in the request
  }
}

}  // namespace symccl::pytorch
