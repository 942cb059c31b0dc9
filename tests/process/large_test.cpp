// Sizes beyond 32 bits, and what one GiB costs. Slow, and hungry for memory.

#include "base/host.hpp"
#include "base/text_file.hpp"
#include "process/memory_use.hpp"

namespace symccl::test {
namespace {

constexpr std::size_t kGibibyte = std::size_t{1} << 30;
constexpr std::size_t kHuge = 2 * kGibibyte + 7;

// Word `index` of what `rank` has; every word differs.
std::uint64_t word(int rank, std::size_t index) {
  return (index + 1) * 0x9e3779b97f4a7c15ull + static_cast<unsigned>(rank);
}

void fill(std::byte* data, std::size_t bytes, int rank) {
  for (std::size_t at = 0; at < bytes; at += 8) {
    const std::uint64_t value = word(rank, at / 8);
    std::memcpy(data + at, &value, std::min<std::size_t>(8, bytes - at));
  }
}

testing::AssertionResult holds(const std::byte* data, std::size_t bytes, int rank) {
  for (std::size_t at = 0; at < bytes; at += 8) {
    const std::uint64_t value = word(rank, at / 8);
    if (std::memcmp(data + at, &value, std::min<std::size_t>(8, bytes - at)) != 0)
      return testing::AssertionFailure() << "differs within 8 bytes from byte " << at << " of rank " << rank;
  }
  return testing::AssertionSuccess();
}

std::size_t memoryOfMachine() {
  const std::string text = readTextFile("/proc/meminfo").value_or("");
  const auto at = text.find("MemAvailable:");
  return at == std::string::npos ? 0 : std::stoull(text.substr(at + 13)) << 10;
}

#define NEEDS_MEMORY(bytes)                        \
  if (memoryOfMachine() < (bytes) + 2 * kGibibyte) \
  GTEST_SKIP() << "needs " << bytesText(bytes) << " and two GiB to spare, free are " << bytesText(memoryOfMachine())

class Large : public testing::TestWithParam<Memory> {};
INSTANTIATE_TEST_SUITE_P(Memory, Large, testing::Values(Memory::unregistered, Memory::registered));

TEST_P(Large, OneGibibyteOfAllReduceCostsWhatIsPromised) {
  NEEDS_MEMORY(2 * kGibibyte);
  onProcesses(2, [](RankProcess& process) {
    const bool registered = GetParam() == Memory::registered;
    if (registered) process.set("SYMCCL_TEST_STAGING", "inaccessible");
    allReduceInPlace(process, GetParam(), kGibibyte, (registered ? 64 : 96) * kMebibyte);
  });
}

TEST_P(Large, BroadcastBeyond32Bits) {
  NEEDS_MEMORY(2 * kHuge);
  onProcesses(2, [](RankProcess& process) {
    const auto comm = process.join();
    Buffer buffer(kHuge, poolFor(*comm, GetParam()), 1);
    if (process.rank() == 1) fill(buffer.as<std::byte>(), kHuge, 1);
    ASSERT_OK(comm->run(Operation::broadcast(buffer.data(), kHuge, DataType::byte, 1)));
    EXPECT_TRUE(holds(buffer.as<std::byte>(), kHuge, 1));
    EXPECT_EQ(countersOf(*comm, Kind::broadcast).zeroCopy, GetParam() == Memory::registered ? 1u : 0u);
  });
}

TEST_P(Large, AllGatherBeyond32Bits) {
  NEEDS_MEMORY(4 * kHuge);
  onProcesses(2, [](RankProcess& process) {
    const auto comm = process.join();
    Buffer buffer(2 * kHuge, poolFor(*comm, GetParam()));
    auto* all = buffer.as<std::byte>();
    auto* own = all + static_cast<std::size_t>(process.rank()) * kHuge;
    fill(own, kHuge, process.rank());
    ASSERT_OK(comm->run(Operation::allGather(own, all, kHuge, DataType::byte)));
    EXPECT_TRUE(holds(all, kHuge, 0));
    EXPECT_TRUE(holds(all + kHuge, kHuge, 1));
  });
}

TEST_P(Large, AMessageBeyond32Bits) {
  NEEDS_MEMORY(2 * kHuge);
  onProcesses(2, [](RankProcess& process) {
    const auto comm = process.join();
    Buffer buffer(kHuge, poolFor(*comm, GetParam()));
    if (process.rank() == 0) {
      fill(buffer.as<std::byte>(), kHuge, 0);
      ASSERT_OK(comm->send(buffer.data(), kHuge, 1).wait());
    } else {
      const Request received = comm->recv(buffer.data(), kHuge, 0);
      ASSERT_OK(received.wait());
      EXPECT_EQ(received.bytes(), kHuge);
      EXPECT_TRUE(holds(buffer.as<std::byte>(), kHuge, 0));
    }
    process.meet(0);
  });
}

}  // namespace
}  // namespace symccl::test
