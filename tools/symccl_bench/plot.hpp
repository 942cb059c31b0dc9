// Rows drawn as SVG: time over size, one panel for each operation, one line for each library.
#pragma once

#include <string>

#include "symccl_bench/json.hpp"

namespace symccl::bench {

/// The drawing of the rows of one document that symccl-bench wrote. Throws Failure where none of them has a size.
std::string drawRows(const Json& document);

/// Draws the file `rows` (JSON) into the file `drawing` ("-": standard output). Returns the exit code. Throws Failure.
int plot(const std::string& rows, const std::string& drawing);

}  // namespace symccl::bench
