#include "errors.hpp"

#include <c10/util/Exception.h>

namespace symccl::pytorch {

void throwError(const Error& error, std::chrono::milliseconds timeout) {
  const std::string text = "symccl: " + error.message();
  switch (error.code()) {
    case Code::invalid:
      TORCH_CHECK_VALUE(false, text);
    case Code::memory:
      TORCH_CHECK_WITH(OutOfMemoryError, false, text);
    case Code::timeout:
      // PyTorch's tests, and scripts written for gloo, look for these words.
      TORCH_CHECK_WITH(DistBackendError, false, "symccl: Timed out waiting ", timeout.count(), "ms: ", error.message());
    default:
      TORCH_CHECK_WITH(DistBackendError, false, text);
  }
}

std::exception_ptr toException(const Error& error, std::chrono::milliseconds timeout) {
  try {
    throwError(error, timeout);
  } catch (...) {
    return std::current_exception();
  }
}

void throwIfRefused(const Request& request) {
  if (!request.done()) return;
  const Status status = request.wait();
  if (!status && status.error().code() == Code::invalid) throwError(status.error());
}

}  // namespace symccl::pytorch
