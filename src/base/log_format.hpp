// What a log line looks like, which lines are wanted, and where they go. Pure functions.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/log.hpp"

namespace symccl {

/// SYMCCL_DEBUG's value as a level; none for anything else.
LogLevel levelFromText(std::string_view text);
/// Whether a list as in "INIT,^POOL" wants `subsystem`. The last entry that names it, or ALL, decides; without one, a
/// list that only leaves out (or is empty) wants it.
bool subsystemWanted(std::string_view list, std::string_view subsystem);
/// `pattern` with %h, %p and %% replaced.
std::string expandFileName(std::string_view pattern, std::string_view host, int pid);

struct LineOrigin {
  std::chrono::system_clock::time_point time;
  std::string_view host;
  int pid;
  int thread;
  int rank;  ///< -1: none, written as "-"
};
/// One line with its newline. Control characters in `line` become spaces: a line stays one line. Time is UTC.
std::string formatLine(const LineOrigin& origin, LogLevel level, std::string_view subsystem, std::string_view line);

}  // namespace symccl
