// From results to the exceptions that PyTorch users expect.
#pragma once

#include <chrono>
#include <exception>
#include <string>

#include "symccl/communicator.hpp"
#include "symccl/result.hpp"

namespace symccl::pytorch {

/// The exception for `error`: ValueError for the caller's arguments, torch.OutOfMemoryError for memory,
/// DistBackendError for everything else. A timeout's text says "Timed out waiting <timeout>ms".
std::exception_ptr toException(const Error& error, std::chrono::milliseconds timeout = std::chrono::milliseconds(0));

[[noreturn]] void throwError(const Error& error, std::chrono::milliseconds timeout = std::chrono::milliseconds(0));

inline void check(const Status& status, std::chrono::milliseconds timeout = std::chrono::milliseconds(0)) {
  if (!status) throwError(status.error(), timeout);
}

/// Throws the error of a request that ended at once because its arguments were refused.
void throwIfRefused(const Request& request);

/// The value of `result`, or its error as an exception.
template <class T>
T valueOf(Result<T> result) {
  if (!result) throwError(result.error());
  return std::move(*result);
}

}  // namespace symccl::pytorch
