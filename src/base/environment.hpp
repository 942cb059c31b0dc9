// Every variable that SymCCL reads, in one table; read once.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "symccl/result.hpp"

namespace symccl {

/// The values in force. Defaults stand in the table of environment.cpp, together with the sentence about each.
struct Environment {
  std::string debug;            ///< SYMCCL_DEBUG: none, version, warn, info, trace
  std::string debugSubsystems;  ///< SYMCCL_DEBUG_SUBSYS: comma list, ^ excludes
  std::string debugFile;        ///< SYMCCL_DEBUG_FILE: %h host, %p pid
  std::size_t heapBytes = 0;    ///< SYMCCL_HEAP_SIZE
  std::string hostId;           ///< SYMCCL_HOST_ID: splits one host for tests
  bool hugePages = true;        ///< SYMCCL_HUGE_PAGES
  std::string isa;              ///< SYMCCL_ISA: auto, avx512, avx2, portable
  bool membarrier = true;       ///< SYMCCL_MEMBARRIER: 0 forces the fallback with fences
  int npuDevices = 0;           ///< SYMCCL_NPU_DEVICES: 0 where nothing is said
  std::string path;             ///< SYMCCL_PATH: auto, staged (never zero-copy)
  std::string root;             ///< SYMCCL_ROOT: host:port of the TCP store
  std::string token;            ///< SYMCCL_TOKEN: secret of the TCP store
  std::string stores;           ///< SYMCCL_STORES: auto, ordinary, streaming
  int threads = 0;              ///< SYMCCL_THREADS: 0 for as many as CPUs are free
  std::string algorithm;        ///< HCCL_ALGO: names are checked when a communicator is created
  std::optional<std::size_t> ringThreshold, treeThreshold;  ///< HCCL_RING_THRESHOLD, HCCL_TREE_THRESHOLD
  std::string testStaging;  ///< SYMCCL_TEST_STAGING: normal, inaccessible (tests: any touch of staging faults)
};

/// One row of the table.
struct Variable {
  const char* name;
  const char* standard;  ///< default, as text
  const char* accepted;  ///< what values are accepted
  const char* meaning;   ///< one sentence
  bool secret = false;   ///< the value is never shown
};
std::span<const Variable> variables();

/// "64", "64K", "3g"; nothing if it is no size.
std::optional<std::size_t> sizeFromText(std::string_view value);
/// Parses with `lookup` in place of getenv. Code::invalid names the variable, its value, and what is accepted.
Result<Environment> parseEnvironment(const std::function<const char*(const char*)>& lookup);
/// Names that start with SYMCCL_ but are not in the table, each with the nearest real one.
std::vector<std::string> unknownVariables(const char* const* environ);

/// This process's environment, read on first call. Where a value is malformed: the defaults, and environmentStatus().
const Environment& environment();
/// Checked by whatever can return an error before anything else is done.
Status environmentStatus();

}  // namespace symccl
