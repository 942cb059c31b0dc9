// Errors inside the tool: one exception type that main() turns into a line and an exit code.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "symccl/result.hpp"

namespace symccl::bench {

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class T>
T orFail(Result<T> result) {
  if (!result) throw Failure(result.error().message());
  return std::move(*result);
}
inline void orFail(const Status& status) {
  if (!status) throw Failure(status.error().message());
}

}  // namespace symccl::bench
