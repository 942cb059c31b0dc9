#include "options.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

namespace symccl::npu {
namespace {

struct Key {
  std::string_view name;
  ValueType type;
};

// Those without an effect describe hardware, or buffers of HCCL's that do not exist here.
constexpr std::array kKeys{
    Key{"group_name", ValueType::text},
    Key{"hccl_algo", ValueType::text},
    Key{"hccl_buffer_name", ValueType::text},
    Key{"hccl_buffer_size", ValueType::number},
    Key{"hccl_exec_timeout", ValueType::number},
    Key{"hccl_job_id", ValueType::number},
    Key{"hccl_op_expansion_mode", ValueType::number},
    Key{"hccl_retry_enable", ValueType::text},
    Key{"hccl_retry_params", ValueType::text},
    Key{"hccl_sdma_qos", ValueType::number},
    Key{"hccl_sym_win_max_mem_size_per_rank", ValueType::number},
    Key{"hccl_world_rank_id", ValueType::number},
    Key{"qos_service_level", ValueType::number},
    Key{"qos_traffic_class", ValueType::number},
};

constexpr std::int64_t kDefaultMostRegistered = 16;  // GiB
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

}  // namespace

std::string knownKeys() {
  std::string names;
  for (const Key& key : kKeys) names += (names.empty() ? "" : ", ") + std::string(key.name);
  return names;
}

std::optional<ValueType> valueTypeOf(const std::string& key) {
  const auto* found = std::find_if(kKeys.begin(), kKeys.end(), [&](const Key& each) { return each.name == key; });
  if (found == kKeys.end()) return std::nullopt;
  return found->type;
}

void HcclOptions::check(const std::string& place) const {
  for (const auto& [key, value] : config) {
    const auto type = valueTypeOf(key);
    if (!type) continue;
    const bool isNumber = std::holds_alternative<std::int64_t>(value);
    TORCH_CHECK(isNumber == (*type == ValueType::number), "Value type of ", key, " should be ",
                *type == ValueType::number ? "int" : "string", ".", place);
    if (!isNumber) continue;
    const auto count = std::get<std::int64_t>(value);
    TORCH_CHECK(count >= 0, "Value type of ", key, " less than 0.", place);
    TORCH_CHECK(key != "hccl_exec_timeout" || count <= std::numeric_limits<std::int32_t>::max(),
                "Value type of hccl_exec_timeout exceeds INT32_MAX(2147483647).", place);
    TORCH_CHECK(key != "hccl_sym_win_max_mem_size_per_rank" || count > 0,
                "hccl_sym_win_max_mem_size_per_rank is 0 (accepted: gigabytes, from 1 on)", place);
  }
}

std::optional<std::int64_t> HcclOptions::number(const std::string& key) const {
  const auto found = config.find(key);
  if (found == config.end()) return std::nullopt;
  return std::get<std::int64_t>(found->second);
}

std::string HcclOptions::text(const std::string& key) const {
  const auto found = config.find(key);
  return found == config.end() ? std::string() : std::get<std::string>(found->second);
}

// 0 seconds: HCCL's default, which is the group's timeout here.
std::optional<std::chrono::milliseconds> HcclOptions::operationTimeout() const {
  if (const auto seconds = number("hccl_exec_timeout"); seconds.value_or(0) > 0) return std::chrono::seconds(*seconds);
  if (opTimeout != kBackendDefaultTimeout) return opTimeout;
  return std::nullopt;
}

std::uint64_t HcclOptions::mostRegistered() const {
  const auto gigabytes = number("hccl_sym_win_max_mem_size_per_rank").value_or(kDefaultMostRegistered);
  return static_cast<std::uint64_t>(std::min<std::int64_t>(gigabytes, 1 << 20)) * kGiB;
}

}  // namespace symccl::npu
