// The three kinds of check: the caller's mistake, the system's refusal, our bug. Each makes an Error with its operands.
#pragma once

#include <cerrno>
#include <sstream>
#include <string>

#include "symccl/result.hpp"

namespace symccl {

/// errno's text with its name, as in "ENOSPC (No space left on device)".
std::string errnoText(int number);

/// Strings and numbers in a row: text("rank ", 3, " of ", 8).
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// The caller's mistake.
template <class... Parts>
Error invalid(const Parts&... parts) {
  return Error(Code::invalid, text(parts...));
}

/// The system's refusal: `call` with its operands, and errno's text. Reads errno first of all.
template <class... Parts>
Error systemError(const Parts&... call) {
  const int number = errno;
  std::string message = text(call...);
  return Error(Code::system, message + " failed: " + errnoText(number));
}

/// Our bug.
template <class... Parts>
Error internalError(const Parts&... parts) {
  return Error(Code::internal, text("bug in SymCCL: ", parts...));
}

}  // namespace symccl
