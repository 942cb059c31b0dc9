// Starting the ranks of a program on this host without a launcher.
#pragma once

#include "symccl/export.hpp"
#include "symccl/result.hpp"

namespace symccl {

/// Runs `ranks` copies of this program (the file that is running, with `argv`) as the ranks of one job, and waits for
/// them. Each finds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and SYMCCL_ROOT in its environment, so that
/// launchFromEnvironment() and storeFromEnvironment() work. The result is 0, or the exit status of the first rank that
/// failed (128 + the signal that killed it); the others are then ended. They do not outlive the caller. Code::invalid
/// for less than one rank, Code::system if a process cannot be started.
SYMCCL_EXPORT Result<int> runRanks(int ranks, char* const argv[]);

}  // namespace symccl
