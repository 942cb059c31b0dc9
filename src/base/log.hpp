// Lines for people, only when SYMCCL_DEBUG asks for them.
#pragma once

#include <atomic>
#include <string>

#include "base/checks.hpp"

namespace symccl {

enum class LogLevel : int { none, version, warn, info, trace };

/// The level in force: one relaxed load.
LogLevel logLevel();
/// Writes "time host:pid:thread rank level subsystem text" to SYMCCL_DEBUG_FILE or standard error. `rank` -1: none.
void logLine(LogLevel level, const char* subsystem, int rank, const std::string& line);

/// log(LogLevel::info, "COMM", rank, "created ", name): the parts are put together only if the level is on.
template <class... Parts>
void log(LogLevel level, const char* subsystem, int rank, const Parts&... parts) {
  if (static_cast<int>(level) <= static_cast<int>(logLevel())) logLine(level, subsystem, rank, text(parts...));
}

}  // namespace symccl
