#include "process/shared_store.hpp"

#include <algorithm>
#include <thread>

#include "base/checks.hpp"
#include "base/deadline.hpp"

namespace symccl::test {

const SharedStore::Entry* SharedStore::newest(const std::string& key) const {
  const std::size_t used = std::min<std::size_t>(table_.used.load(std::memory_order_acquire), table_.entries.size());
  for (std::size_t i = used; i-- > 0;) {
    const Entry& entry = table_.entries[i];
    if (entry.complete.load(std::memory_order_acquire) != 0 && key == entry.key.data()) return &entry;
  }
  return nullptr;
}

Status SharedStore::set(const std::string& key, const Bytes& value) {
  if (beforeSet) beforeSet(key);
  const std::size_t index = table_.used.fetch_add(1);
  if (index >= table_.entries.size()) return invalid("the test's store is full");
  Entry& entry = table_.entries[index];
  if (key.size() >= entry.key.size() || value.size() > entry.value.size())
    return invalid("too long for the test's store: key '", key, "', value of ", value.size(), " bytes");
  std::copy(key.begin(), key.end(), entry.key.begin());
  std::copy(value.begin(), value.end(), entry.value.begin());
  entry.valueBytes = static_cast<std::uint32_t>(value.size());
  entry.complete.store(1, std::memory_order_release);
  if (afterSet) afterSet(key);
  return {};
}

Result<Bytes> SharedStore::get(const std::string& key, std::chrono::milliseconds wait) {
  if (beforeGet) beforeGet(key);
  const Deadline deadline = Deadline::in(wait);
  while (true) {
    if (const Entry* entry = newest(key)) {
      Bytes value(entry->value.begin(), entry->value.begin() + entry->valueBytes);
      if (afterGet) afterGet(key);
      return value;
    }
    if (deadline.passed()) return Error(Code::timeout, text("the store has no key '", key, "'"));
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

Result<std::int64_t> SharedStore::add(const std::string&, std::int64_t) {
  return Error(Code::unsupported, "the test's store does not count");
}

}  // namespace symccl::test
