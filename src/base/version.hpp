// The version of this build.
#pragma once

namespace symccl {

/// As in "0.1.0".
const char* version();

}  // namespace symccl
