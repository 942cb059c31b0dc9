// Ranks that are threads of one process: one heap, one mapping, so that sanitizers see every access.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "symccl/communicator.hpp"

namespace symccl::test {

/// Runs `body(rank)` on `size` threads and joins them.
inline void onThreads(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&, rank] { body(rank); });
  for (auto& thread : threads) thread.join();
}

/// A name that no other communicator of this process has had.
inline std::string freshName() {
  static std::atomic<int> count{0};
  return "test-" + std::to_string(++count);
}

/// Runs `body(communicator)` as `size` ranks.
inline void withRanks(int size, const std::function<void(Communicator&)>& body, CommunicatorOptions options = {}) {
  const std::shared_ptr<Store> store = makeLocalStore();
  options.name = freshName();
  if (options.timeout == CommunicatorOptions().timeout) options.timeout = std::chrono::seconds(60);
  onThreads(size, [&](int rank) {
    auto communicator = Communicator::create(*store, rank, size, options);
    ASSERT_TRUE(communicator) << communicator.error().message();
    body(**communicator);
  });
}

inline testing::AssertionResult succeeded(const Status& status) {
  if (status) return testing::AssertionSuccess();
  return testing::AssertionFailure() << codeName(status.error().code()) << ": " << status.error().message();
}
#define EXPECT_OK(status) EXPECT_TRUE(::symccl::test::succeeded(status))
#define ASSERT_OK(status) ASSERT_TRUE(::symccl::test::succeeded(status))

}  // namespace symccl::test
