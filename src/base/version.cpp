#include "base/version.hpp"

namespace symccl {

const char* version() { return SYMCCL_VERSION; }

}  // namespace symccl
