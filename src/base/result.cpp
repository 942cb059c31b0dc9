#include "symccl/result.hpp"

namespace symccl {

const char* codeName(Code code) {
  switch (code) {
    case Code::invalid:
      return "invalid";
    case Code::unsupported:
      return "unsupported";
    case Code::mismatch:
      return "mismatch";
    case Code::truncate:
      return "truncate";
    case Code::timeout:
      return "timeout";
    case Code::dead:
      return "dead";
    case Code::aborted:
      return "aborted";
    case Code::destroyed:
      return "destroyed";
    case Code::forked:
      return "forked";
    case Code::memory:
      return "memory";
    case Code::system:
      return "system";
    case Code::corrupt:
      return "corrupt";
    case Code::internal:
      return "internal";
  }
  return "unknown";
}

}  // namespace symccl
