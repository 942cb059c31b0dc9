// The keys and values of a store, with the limits that every store keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "symccl/store.hpp"

namespace symccl {

inline constexpr std::size_t kMostKeyBytes = 4096;
inline constexpr std::size_t kMostValueBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMostStoreBytes = std::size_t{256} << 20;

/// Code::invalid if the key is empty or longer than kMostKeyBytes, or the value longer than kMostValueBytes.
Status checkKey(const std::string& key);
Status checkValue(const std::string& key, std::size_t bytes);

/// Not thread-safe.
class StoreTable {
 public:
  /// Code::invalid for sizes, Code::memory where all values together would pass kMostStoreBytes.
  Status set(const std::string& key, Bytes value);
  /// The value, or null.
  const Bytes* find(const std::string& key) const;
  /// Counters are values of 8 bytes, little-endian. Code::invalid if `key` holds anything else.
  Result<std::int64_t> add(const std::string& key, std::int64_t amount);

 private:
  std::unordered_map<std::string, Bytes> values_;
  std::size_t bytes_ = 0;
};

}  // namespace symccl
