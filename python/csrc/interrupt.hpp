// Ctrl-C while a call waits.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "symccl/communicator.hpp"

namespace symccl::pytorch {

/// How long a signal may wait for its handler.
inline constexpr std::chrono::milliseconds kSignalSlice(200);

/// While it lives, Python's signal handlers run while this thread waits inside calls on `communicator`, if this is
/// Python's main thread. If one raises (KeyboardInterrupt), the communicator is aborted and rethrow() throws it.
class SignalScope {
 public:
  /// Does not keep the communicator: destroying it ends calls that only wait for a request.
  explicit SignalScope(std::weak_ptr<Communicator> communicator);
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;

  /// Throws what a handler raised as pybind11::error_already_set; else returns.
  void rethrow() const;

 private:
  friend struct SignalHook;
  const std::weak_ptr<Communicator> communicator_;
  SignalScope* const outer_;
  bool raised_ = false;
};

/// Waits for `request` of `communicator` inside a SignalScope, at most `limit`.
Status waitInterruptibly(const std::weak_ptr<Communicator>& communicator, const Request& request,
                         std::optional<std::chrono::milliseconds> limit = std::nullopt);

/// Whether the calling thread is Python's main thread, on which signal handlers run.
bool onMainThread();

/// Runs the signal handlers that are due, if this is Python's main thread. True if one raised; the exception stays with
/// the thread. Takes the GIL.
bool signalRaised();

/// Throws an exception that signalRaised() left with the thread, as pybind11::error_already_set; else returns.
void rethrowRaised();

}  // namespace symccl::pytorch
