// What one rank's description of a collective must satisfy before anything is announced.
#pragma once

#include "symccl/communicator.hpp"

namespace symccl {

/// Success, or Code::invalid / Code::unsupported with what was wrong and what is accepted. Touches nothing, uses no
/// sequence number.
Status checkArguments(const Operation& operation, int rank, int size);

}  // namespace symccl
