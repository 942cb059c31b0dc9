// Results: a value or an error, never an exception.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "symccl/export.hpp"

namespace symccl {

/// What kind of thing went wrong. The sentence in Error::message says what exactly.
enum class Code : std::uint8_t {
  invalid,      ///< the caller's arguments; nothing was announced, the communicator stays usable
  unsupported,  ///< a valid request that this build or this host cannot serve
  mismatch,     ///< the ranks called different things; the communicator is finished
  truncate,     ///< a message longer (in c10d also: shorter) than the receive buffer; the communicator is finished
  timeout,      ///< the deadline passed; the communicator is finished unless the sentence says otherwise
  dead,         ///< a peer that was needed is gone; the communicator is finished
  aborted,      ///< abort() was called here or on a peer; the communicator is finished
  destroyed,    ///< this communicator, or a peer's end of it, was destroyed
  forked,       ///< a communicator of the parent process was used in a forked child
  memory,       ///< heap, machine or cgroup has too little memory left
  system,       ///< the operating system refused; the sentence has the call and errno's text
  corrupt,      ///< a peer published a value that cannot be
  internal,     ///< a bug of SymCCL
};

/// The code's name, as in "timeout".
SYMCCL_EXPORT const char* codeName(Code code);

/// An error: a code, a sentence for a person, and the rank that caused it where one did.
class [[nodiscard]] Error {
 public:
  Error(Code code, std::string message, int rank = -1) : code_(code), rank_(rank), message_(std::move(message)) {}

  Code code() const { return code_; }
  /// The rank (of the communicator concerned) that caused the error, or -1.
  int rank() const { return rank_; }
  const std::string& message() const { return message_; }

  /// The same error, with what was being done put in front: "creating communicator 'dp': ...".
  Error in(const std::string& context) const { return Error(code_, context + ": " + message_, rank_); }

 private:
  Code code_;
  int rank_;
  std::string message_;
};

/// A value or an Error. Test it before use: `if (!result) return result.error();`.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Error error) : error_(std::make_unique<Error>(std::move(error))) {}

  explicit operator bool() const { return value_.has_value(); }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const Error& error() const { return *error_; }

 private:
  std::optional<T> value_;
  std::unique_ptr<Error> error_;
};

/// Success, or an Error. Success costs one null pointer.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::make_unique<Error>(std::move(error))) {}
  Result(const Result& other) : error_(other.error_ ? std::make_unique<Error>(*other.error_) : nullptr) {}
  Result(Result&&) = default;
  Result& operator=(const Result& other) { return *this = Result(other); }
  Result& operator=(Result&&) = default;

  explicit operator bool() const { return error_ == nullptr; }
  const Error& error() const { return *error_; }

 private:
  std::unique_ptr<Error> error_;
};

using Status = Result<void>;

}  // namespace symccl
