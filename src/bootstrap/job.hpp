// What tells one launched job from another, equally on all of its ranks.
#pragma once

#include <string>

#include "bootstrap/launch.hpp"

namespace symccl {

/// "NAME=value" lines of the variables by which the launcher names the job, or empty where it gives it no name. Equal
/// on all hosts of the job.
std::string jobVariables(const Launch& launch, const Lookup& lookup);

/// The process that started the ranks of this host, as "pid@start time": the nearest ancestor of `pid` (0: the calling
/// process) whose environment lacks `variable` or cannot be read. Wrappers between it and the ranks do not matter.
std::string launchingProcess(const std::string& variable, int pid = 0);

/// An abstract Unix name for this user's and this job's store on one host.
std::string jobSocketName(const Launch& launch, const Lookup& lookup);

}  // namespace symccl
