#include <condition_variable>
#include <mutex>

#include "base/checks.hpp"
#include "base/deadline.hpp"
#include "bootstrap/store_table.hpp"
#include "symccl/store.hpp"

namespace symccl {
namespace {

class LocalStore final : public Store {
 public:
  Status set(const std::string& key, const Bytes& value) override {
    const std::lock_guard lock(mutex_);
    Status status = table_.set(key, value);
    if (status) changed_.notify_all();
    return status;
  }

  Result<Bytes> get(const std::string& key, std::chrono::milliseconds wait) override {
    if (Status status = checkKey(key); !status) return status.error();
    const Deadline deadline = Deadline::in(wait);
    std::unique_lock lock(mutex_);
    const bool found = changed_.wait_until(lock, deadline.at(), [&] { return table_.find(key) != nullptr; });
    if (found) return *table_.find(key);
    return Error(Code::timeout, text("the key '", key, "' did not appear in the store within ", wait.count(), " ms"));
  }

  Result<std::int64_t> add(const std::string& key, std::int64_t amount) override {
    const std::lock_guard lock(mutex_);
    Result<std::int64_t> sum = table_.add(key, amount);
    if (sum) changed_.notify_all();
    return sum;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  StoreTable table_;  // guarded by mutex_
};

}  // namespace

std::shared_ptr<Store> makeLocalStore() { return std::make_shared<LocalStore>(); }

}  // namespace symccl
