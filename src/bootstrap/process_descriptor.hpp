// The owner of a descriptor that belongs to this process alone: forked children do not keep it.
#pragma once

#include <cstdint>
#include <utility>

#include "base/file_descriptor.hpp"

namespace symccl {

/// As FileDescriptor, but closed in a forked child before fork() returns there, so that a child cannot hide the death
/// of its parent from those at the other end. What the child inherits of the object itself is empty: its destructor
/// closes nothing. Of the first 16384 at a time; more are plain descriptors. Not thread-safe, but fork() may come at
/// any time.
class ProcessDescriptor {
 public:
  ProcessDescriptor() = default;
  explicit ProcessDescriptor(FileDescriptor descriptor);
  ProcessDescriptor(ProcessDescriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), slot_(other.slot_), generation_(other.generation_) {}
  ProcessDescriptor& operator=(ProcessDescriptor&& other) noexcept;
  ~ProcessDescriptor() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
  int slot_ = -1;
  std::uint64_t generation_ = 0;
};

}  // namespace symccl
