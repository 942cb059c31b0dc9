// Options of a group of the backend `hccl`, by the names of torch_npu.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "backend.hpp"

namespace symccl::npu {

inline constexpr const char* kHcclName = "hccl";

/// " (rank 1 of group 'tp')": the end of every error's text.
inline std::string placeOf(int rank, const std::string& group) {
  return " (rank " + std::to_string(rank) + " of group '" + group + "')";
}

using HcclConfig = std::map<std::string, std::variant<std::int64_t, std::string>>;

/// What a user may pass as pg_options. A group copies it when it is created.
struct HcclOptions final : pytorch::GroupOptions {
  HcclOptions() : GroupOptions(kBackendDefaultTimeout, -1, kHcclName) {}
  c10::intrusive_ptr<GroupOptions> copy() const override { return c10::make_intrusive<HcclOptions>(*this); }

  /// Throws, with torch_npu's text, if a value of `config` has the wrong type or is out of range; a key that is
  /// unknown has no effect. `place` ends the text.
  void check(const std::string& place) const;

  std::optional<std::int64_t> number(const std::string& key) const;
  std::string text(const std::string& key) const;

  /// Of each operation, where something else than the group's timeout was asked for: hccl_exec_timeout, else opTimeout.
  std::optional<std::chrono::milliseconds> operationTimeout() const;
  /// The most that may be registered: hccl_sym_win_max_mem_size_per_rank. Bytes.
  std::uint64_t mostRegistered() const;

  std::chrono::milliseconds opTimeout = kBackendDefaultTimeout;
  HcclConfig config;
  std::string groupId;
};

/// Whether a value of the key has to be a number, or a string; nothing for a key that is unknown.
enum class ValueType : std::uint8_t { number, text };
std::optional<ValueType> valueTypeOf(const std::string& key);
std::string knownKeys();

}  // namespace symccl::npu
