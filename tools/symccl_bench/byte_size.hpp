// Sizes as people write them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace symccl::bench {

/// "8", "64K", "1.5M", "2G", also "64KiB"; K, M and G are powers of 1024. None for anything else.
std::optional<std::size_t> parseBytes(const std::string& text);

}  // namespace symccl::bench
