// A store in memory that the processes of one test share: no server that could die, no descriptor that could leak.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "symccl/store.hpp"

namespace symccl::test {

/// One process's view. Keys have at most 159 bytes, values 1024. A table is never cleared: a test sets few keys.
class SharedStore : public Store {
 public:
  struct Entry {
    std::atomic<std::uint32_t> complete{0};
    std::uint32_t valueBytes = 0;
    std::array<char, 160> key{};
    std::array<std::uint8_t, 1024> value{};
  };
  struct Table {
    std::atomic<std::uint32_t> used{0};
    std::array<Entry, 4096> entries{};
  };
  explicit SharedStore(Table& table) : table_(table) {}

  /// Where a test makes its process wait, or die, while a communicator is created.
  std::function<void(const std::string& key)> beforeSet, afterSet, beforeGet, afterGet;

  Status set(const std::string& key, const Bytes& value) override;
  Result<Bytes> get(const std::string& key, std::chrono::milliseconds wait) override;
  /// Code::unsupported: creating a communicator counts nothing.
  Result<std::int64_t> add(const std::string& key, std::int64_t amount) override;

 private:
  const Entry* newest(const std::string& key) const;

  Table& table_;
};

}  // namespace symccl::test
