// Threads of the library's own: no signal handler of the program ever runs on them.
#pragma once

#include <functional>
#include <thread>

#include "symccl/result.hpp"

namespace symccl {

/// Starts `body` on a thread with all signals blocked, called `name` (at most 15 characters). Code::system if the
/// system has no thread left.
Result<std::thread> startQuietThread(const char* name, std::function<void()> body);

}  // namespace symccl
