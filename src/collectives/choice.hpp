// Algorithms that users ask for: HCCL_ALGO and the option of a communicator.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "collectives/algorithm.hpp"
#include "symccl/result.hpp"

namespace symccl {

/// What is asked for inside a host, by kind; Named::automatic where nothing is.
class Choice {
 public:
  /// `text` is `levels` for all operations, or `op=levels` separated by '/'. Levels are `level0:name`, `level1:name`
  /// and so on, separated by ';'; a name alone is that of level0. HCCL's names of algorithms and operations, and ours
  /// (which names() lists). Levels above 0 are between hosts. Code::invalid says what is wrong and what is accepted.
  static Result<Choice> parse(std::string_view text);
  static std::string names();

  Named at(Kind kind) const { return named_[static_cast<std::size_t>(kind)]; }
  void set(Kind kind, Named named) { named_[static_cast<std::size_t>(kind)] = named; }

 private:
  std::array<Named, static_cast<std::size_t>(Kind::scatterV) + 1> named_{};
};

}  // namespace symccl
