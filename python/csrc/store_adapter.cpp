#include "store_adapter.hpp"

#include <c10/util/Exception.h>

namespace symccl::pytorch {
namespace {

using Clock = std::chrono::steady_clock;

Error failed(const char* call, const std::string& key, const std::exception& exception) {
  const auto* error = dynamic_cast<const c10::Error*>(&exception);
  const std::string reason = error ? error->what_without_backtrace() : exception.what();
  return Error(Code::system, std::string("the store's ") + call + " of key '" + key + "' failed: " + reason);
}

}  // namespace

Status StoreAdapter::set(const std::string& key, const Bytes& value) {
  try {
    store_->set(key, value);
    return {};
  } catch (const std::exception& exception) {
    return failed("set", key, exception);
  }
}

Result<Bytes> StoreAdapter::get(const std::string& key, std::chrono::milliseconds wait) {
  const auto deadline = Clock::now() + wait;
  try {
    // To c10d a timeout of zero means none.
    if (wait.count() > 0) {
      store_->wait({key}, wait);
    } else if (!store_->check({key})) {
      return Error(Code::timeout, "key '" + key + "' is not in the store");
    }
    return store_->get(key);
  } catch (const std::exception& exception) {
    // The kinds of store throw different exceptions when the time is over, so the clock tells.
    if (Clock::now() >= deadline) return Error(Code::timeout, "key '" + key + "' did not appear in the store");
    return failed("get", key, exception);
  }
}

Result<std::int64_t> StoreAdapter::add(const std::string& key, std::int64_t amount) {
  try {
    return store_->add(key, amount);
  } catch (const std::exception& exception) {
    return failed("add", key, exception);
  }
}

}  // namespace symccl::pytorch
