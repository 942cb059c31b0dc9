// What this host and its container allow, as text for people.
#pragma once

#include <string>

namespace symccl::info {

/// Lines "name  value" under a heading each for CPUs, memory and kernel.
std::string hostPage();

}  // namespace symccl::info
