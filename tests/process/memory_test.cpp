// What communicators and operations cost in memory.

#include <cstdio>

#include "process/memory_use.hpp"

namespace symccl::test {
namespace {

// The promise is for 1 GiB, see large_test.cpp; what is beside the buffer does not grow with it.
TEST(ProcessMemoryUse, AllReduceInARegisteredPool) {
  onProcesses(2, [](RankProcess& process) {
    process.set("SYMCCL_TEST_STAGING", "inaccessible");
    allReduceInPlace(process, Memory::registered, 256 * kMebibyte, 64 * kMebibyte);
  });
}

TEST(ProcessMemoryUse, AllReduceOfPrivateMemory) {
  onProcesses(2, [](RankProcess& process) {
    allReduceInPlace(process, Memory::unregistered, 256 * kMebibyte, 96 * kMebibyte);
  });
}

// One small operation of each lane on each of many communicators.
void reduceOn(RankProcess& process, Communicator& comm, int which) {
  std::vector<std::int32_t> data(500);
  for (std::size_t k = 0; k < data.size(); ++k) data[k] = element(process.rank(), k) + which;
  ASSERT_OK(comm.run(Operation::allReduce(data.data(), data.data(), data.size(), DataType::int32, ReduceOp::sum)));
  for (std::size_t k = 0; k < data.size(); ++k)
    ASSERT_EQ(data[k], element(0, k) + element(1, k) + element(2, k) + 3 * which);
}
void passOn(RankProcess& process, Communicator& comm, int which) {
  const int to = (process.rank() + 1) % 3, from = (process.rank() + 2) % 3;
  const std::int64_t out = process.rank() * 1000 + which;
  std::int64_t in = -1;
  const Request sent = comm.send(&out, sizeof out, to, 7);
  ASSERT_OK(comm.recv(&in, sizeof in, from, 7).wait());
  ASSERT_OK(sent.wait());
  ASSERT_EQ(in, from * 1000 + which);
}

TEST(ProcessMemoryUse, TwoHundredCommunicators) {
  constexpr std::size_t kCommunicators = 200;
  onProcesses(3, [](RankProcess& process) {
    const auto first = process.join("first");
    reduceOn(process, *first, 0);
    const std::size_t residentBefore = residentPrivate() + residentShared(), heapBefore = heapPages();
    const int threadsBefore = threads(), descriptorsBefore = openDescriptors(), mappingsBefore = mappings();
    std::vector<std::shared_ptr<Communicator>> comms;
    for (std::size_t i = 0; i < kCommunicators; ++i) comms.push_back(process.join("number " + std::to_string(i)));
    for (std::size_t i = 0; i < kCommunicators; ++i) reduceOn(process, *comms[i], static_cast<int>(i));
    EXPECT_EQ(openDescriptors(), descriptorsBefore);
    EXPECT_EQ(threads(), threadsBefore);
    EXPECT_LT(mappings(), mappingsBefore + 20) << "the C library's arenas at most";
    for (std::size_t i = 0; i < kCommunicators; ++i) passOn(process, *comms[i], static_cast<int>(i));
    process.meet(0);
    // All that is resident here, pages of the peers' heaps too.
    const std::size_t each = (residentPrivate() + residentShared() - residentBefore) / kCommunicators;
    EXPECT_LT(each, kMebibyte);
    EXPECT_LT((heapPages() - heapBefore) / kCommunicators, kMebibyte);
    EXPECT_EQ(openDescriptors(), descriptorsBefore);
    if (process.rank() == 0) std::printf("resident for each communicator: %zu KiB\n", each / 1024);
    process.meet(1);
  });
}

}  // namespace
}  // namespace symccl::test
