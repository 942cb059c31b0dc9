// symccl-bench compare: what became slower.
#pragma once

#include <string>

namespace symccl::bench {

/// Compares two files of results (of --json, or of `make bench`), row by row, and prints the rows that differ beyond
/// noise: the ranges that eight in ten times lie in do not meet, and the medians differ by more than a tenth. Returns
/// the exit code: 0; 1 if a row became slower; throws Failure if a file cannot be read or no row is in both.
int compare(const std::string& before, const std::string& after);

}  // namespace symccl::bench
