// What plan() would choose for a described operation, and what it takes each algorithm for.
#pragma once

#include <cstdint>
#include <string>

#include "symccl/result.hpp"

namespace symccl::info {

/// As given on the command line.
struct PlanQuestion {
  std::string operation;
  std::string bytes;
  std::string type = "float32";
  std::string path = "registered";
  int ranks = 2;
};

/// A table of all algorithms that the operation has, with this host's measured costs. Code::invalid says what is
/// accepted.
Result<std::string> planPage(const PlanQuestion& question);

}  // namespace symccl::info
