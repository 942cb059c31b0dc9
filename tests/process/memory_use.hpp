// How much memory this process holds at most while something runs.
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>

#include "process/proc.hpp"
#include "process/process_ranks.hpp"
#include "unit/comm/memory_kinds.hpp"

namespace symccl::test {

inline constexpr std::size_t kMebibyte = std::size_t{1} << 20;

/// Looks all the time how much memory this process holds: private pages, and pages of its heap.
class Peak {
 public:
  Peak() : thread_([this] { look(); }) {}
  ~Peak() {
    if (thread_.joinable()) most();
  }
  std::size_t most() {
    stop_ = true;
    thread_.join();
    return most_;
  }

 private:
  void look() {
    while (!stop_) {
      most_ = std::max(most_, residentPrivate() + heapPages());
      std::this_thread::sleep_for(1ms);
    }
  }
  std::atomic<bool> stop_{false};
  std::size_t most_ = 0;
  std::thread thread_;
};

/// All-reduce of two ranks in place on `bytes` of memory: values, path, and that private memory and heap together have
/// at most `allowed` bytes more than the buffer at any time.
inline void allReduceInPlace(RankProcess& process, Memory memory, std::size_t bytes, std::size_t allowed) {
  const auto comm = process.join();
  const auto pool = poolFor(*comm, memory);
  Peak peak;
  {
    Buffer buffer(bytes, pool);
    const std::size_t count = bytes / sizeof(float);
    auto* data = buffer.as<float>();
    for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>(element(process.rank(), i));
    ASSERT_OK(comm->run(Operation::allReduce(data, data, count, DataType::float32, ReduceOp::sum)));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i)
      wrong += data[i] != static_cast<float>(element(0, i)) + static_cast<float>(element(1, i));
    EXPECT_EQ(wrong, 0u);
  }
  const std::size_t most = peak.most();
  EXPECT_GE(most, bytes) << "the measurement sees the buffer";
  EXPECT_LE(most, bytes + allowed) << (most - bytes) / kMebibyte << " MiB beside the buffer";
  const OperationCounters counters = countersOf(*comm, Kind::allReduce);
  EXPECT_EQ(counters.staged, memory == Memory::registered ? 0u : 1u);
  EXPECT_EQ(counters.zeroCopy, memory == Memory::registered ? 1u : 0u);
}

}  // namespace symccl::test
