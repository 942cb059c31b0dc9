// Ctrl-C while a call waits.
#pragma once

#include <chrono>
#include <optional>

#include "symccl/communicator.hpp"

namespace symccl::pytorch {

/// Request::wait, except that Python's signal handlers run meanwhile if this is Python's main thread: what they raise
/// (KeyboardInterrupt) is thrown as pybind11::error_already_set. The operation itself goes on.
///
/// The calling thread may hold the GIL or not.
Status waitInterruptibly(const Request& request, std::optional<std::chrono::milliseconds> limit);

/// Whether the calling thread is Python's main thread, on which signal handlers run.
bool onMainThread();

/// Runs the signal handlers that are due and throws what they raise. Takes the GIL; main thread only.
void runSignalHandlers();

}  // namespace symccl::pytorch
