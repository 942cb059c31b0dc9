#include "interrupt.hpp"

#include <pybind11/pybind11.h>

#include <algorithm>

namespace symccl::pytorch {
namespace {

/// How long a signal may wait for its handler.
constexpr std::chrono::milliseconds kSlice(200);

bool isMainThread() {
  if (!Py_IsInitialized()) return false;
  pybind11::gil_scoped_acquire gil;
  const auto threading = pybind11::module_::import("threading");
  return threading.attr("current_thread")().is(threading.attr("main_thread")());
}

}  // namespace

bool onMainThread() {
  thread_local const bool answer = isMainThread();
  return answer;
}

void runSignalHandlers() {
  pybind11::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

Status waitInterruptibly(const Request& request, std::optional<std::chrono::milliseconds> limit) {
  if (!onMainThread()) return request.wait(limit);
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  while (true) {
    std::chrono::milliseconds slice = kSlice;
    if (limit) {
      const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
      slice = std::clamp(*limit - passed, std::chrono::milliseconds(0), kSlice);
    }
    const Status status = request.wait(slice);
    if (request.done() || slice.count() == 0) return status;
    runSignalHandlers();
  }
}

}  // namespace symccl::pytorch
