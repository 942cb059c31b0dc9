#include "store_adapter.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <thread>

#include "interrupt.hpp"

namespace symccl::pytorch {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::microseconds kShortestPause{200}, kLongestPause{10'000};

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

// c10d's stores log a warning whenever a wait times out, and ranks wait for each other in short slices: so ask instead.
Result<Bytes> StoreAdapter::get(const std::string& key, std::chrono::milliseconds wait) {
  const auto deadline = Clock::now() + wait;
  auto pause = kShortestPause;
  try {
    while (!store_->check({key})) {
      if (signalRaised()) return Error(Code::aborted, "a signal interrupted the wait for key '" + key + "'");
      const auto left = deadline - Clock::now();
      if (left.count() <= 0) return Error(Code::timeout, "key '" + key + "' did not appear in the store");
      std::this_thread::sleep_for(std::min<Clock::duration>(pause, left));
      pause = std::min(2 * pause, kLongestPause);
    }
    return store_->get(key);
  } catch (const std::exception& exception) {
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
