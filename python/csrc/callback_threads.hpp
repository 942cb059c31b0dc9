// Threads for the callbacks of futures.
#pragma once

#include <functional>

namespace symccl::pytorch {

/// Runs `job` on a thread that may block in it.
///
/// Callbacks of futures may wait for other operations of the same group (PowerSGD's do), so they must not run on a
/// thread that moves operations on. Jobs start in the order in which they came; a new thread is made only when all that
/// exist are busy, and an idle one ends after a while. Safe in a forked child.
void runOnCallbackThread(std::function<void()> job);

/// Waits until the jobs that were posted have run and the threads have ended; later jobs run in their caller's thread.
/// Called once, when the interpreter exits, without the GIL.
void endCallbackThreads();

}  // namespace symccl::pytorch
