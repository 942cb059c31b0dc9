// Small files of /proc and /sys, whole.
#pragma once

#include <optional>
#include <string>

namespace symccl {

/// The file's text, or nothing if it cannot be read. For files whose size is not known before they are read.
std::optional<std::string> readTextFile(const std::string& path);

}  // namespace symccl
