#include "bootstrap/store_table.hpp"

#include "base/checks.hpp"
#include "base/host.hpp"
#include "bootstrap/wire.hpp"

namespace symccl {

Status checkKey(const std::string& key) {
  if (key.empty() || key.size() > kMostKeyBytes) {
    return invalid("a store's key has 1 to ", kMostKeyBytes, " bytes, this one has ", key.size());
  }
  return {};
}

Status checkValue(const std::string& key, std::size_t bytes) {
  if (bytes > kMostValueBytes) {
    return invalid("a store's value has at most ", bytesText(kMostValueBytes), ", the one for '", key, "' has ", bytes,
                   " bytes");
  }
  return {};
}

Status StoreTable::set(const std::string& key, Bytes value) {
  if (Status status = checkKey(key); !status) return status;
  if (Status status = checkValue(key, value.size()); !status) return status;
  const auto at = values_.find(key);
  const std::size_t before = at == values_.end() ? 0 : key.size() + at->second.size();
  const std::size_t after = key.size() + value.size();
  if (bytes_ - before + after > kMostStoreBytes) {
    return Error(Code::memory, text("the store is full: it holds at most ", bytesText(kMostStoreBytes)));
  }
  bytes_ = bytes_ - before + after;
  values_.insert_or_assign(key, std::move(value));
  return {};
}

const Bytes* StoreTable::find(const std::string& key) const {
  const auto at = values_.find(key);
  return at == values_.end() ? nullptr : &at->second;
}

Result<std::int64_t> StoreTable::add(const std::string& key, std::int64_t amount) {
  std::uint64_t value = 0;
  if (const Bytes* held = find(key)) {
    WireReader in(*held);
    value = in.u64();
    if (!in.complete())
      return invalid("add: the store's key '", key, "' holds a value of ", held->size(), " bytes, not a counter");
  }
  value += static_cast<std::uint64_t>(amount);  // unsigned: wraps where a signed sum would be undefined
  if (Status status = set(key, WireWriter().u64(value).take()); !status) return status.error();
  return static_cast<std::int64_t>(value);
}

}  // namespace symccl
