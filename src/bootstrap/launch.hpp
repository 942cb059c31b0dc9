// Reading launchers' variables, with the look-up given so that tests need no environment.
#pragma once

#include <functional>
#include <string>

#include "bootstrap/address.hpp"
#include "symccl/result.hpp"
#include "symccl/store.hpp"

namespace symccl {

/// As getenv. A variable that is empty counts as unset.
using Lookup = std::function<const char*(const char*)>;

Result<Launch> launchFrom(const Lookup& lookup);

/// Where the ranks of a launch meet, and how they prove that they belong together.
struct StorePlan {
  bool inProcess = false;  ///< one rank: no address is needed
  Address address;
  std::string token;
};

/// Decides it from SYMCCL_ROOT and SYMCCL_TOKEN (`root`, `token`, both may be empty) and the launcher's variables.
/// Every rank decides the same. Code::invalid says which variable would help.
Result<StorePlan> planStore(const Launch& launch, const std::string& root, const std::string& token,
                            const Lookup& lookup);

}  // namespace symccl
