// A heap larger than the memory: what is asked beyond it is an error, and nobody is killed.

#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/host.hpp"
#include "heap_fixture.hpp"
#include "in_child.hpp"
#include "limited_cgroup.hpp"
#include "symccl/memory.hpp"

namespace symccl {
namespace {

#ifdef SYMCCL_THREAD_SANITIZER
[[maybe_unused]] const int large = ::setenv("SYMCCL_HEAP_SIZE", "64G", 1);
#else
[[maybe_unused]] const int large = ::setenv("SYMCCL_HEAP_SIZE", "1T", 1);
#endif

TEST(MemoryLimit, MoreThanTheMachineHasIsAnError) {
  Heap& heap = heapOf(0);
  const std::size_t asked = memoryLeft().bytes + (std::size_t{1} << 30);
  if (asked > heap.bytes()) GTEST_SKIP() << "this machine has more memory than the heap has room";
  const auto refused = heap.reserve(asked, Backing::reserved);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::memory);
  for (const char* part : {"asked ", "free ", "the limit is the "}) {
    EXPECT_NE(refused.error().message().find(part), std::string::npos) << refused.error().message();
  }
  EXPECT_EQ(heap.report().used, 0u);
  EXPECT_EQ(pagesOf(heap), 0u);

  const std::size_t sparse = *heap.reserve(asked, Backing::sparse);
  EXPECT_EQ(heap.back(sparse, asked).error().code(), Code::memory);
  EXPECT_TRUE(heap.back(sparse, kMebibyte)) << "a part that fits";
  heap.release(sparse);
  EXPECT_EQ(pagesOf(heap), 0u);

  const auto pool = *Pool::create(0);
  EXPECT_EQ(pool->allocate(asked).error().code(), Code::memory);
  EXPECT_TRUE(pool->allocate(kMebibyte));
}

TEST(MemoryLimit, MoreThanTheCgroupHasIsAnError) {
  constexpr std::size_t kLimit = 256 * kMebibyte;
  const LimitedCgroup cgroup(kLimit);
  if (!cgroup) GTEST_SKIP() << "this user may not make a cgroup with a memory limit";
  EXPECT_TRUE(passesInChild([&] {
    ASSERT_TRUE(cgroup.enter());
    Heap& heap = heapOf(2);
    for (const std::size_t asked : {kLimit, 4 * kLimit, kLimit - 8 * kMebibyte}) {
      const auto refused = heap.reserve(asked, Backing::reserved);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code(), Code::memory);
      const std::string& message = refused.error().message();
      EXPECT_NE(message.find("cgroup"), std::string::npos) << message;
      EXPECT_NE(message.find("symccl-test-"), std::string::npos) << message;
      EXPECT_NE(message.find("256 MiB"), std::string::npos) << message;
    }
    const auto pool = *Pool::create(2);
    std::size_t got = 0;
    while (const auto block = pool->allocate(11 * kMebibyte)) {
      fillPattern(*block, 11 * kMebibyte, got);
      got += 11 * kMebibyte;
    }
#if !defined(SYMCCL_THREAD_SANITIZER) && !defined(__SANITIZE_ADDRESS__)  // whose shadow counts too
    EXPECT_GE(got, kLimit / 2) << "most of the limit can be used";
#endif
    EXPECT_GT(got, 0u);
    EXPECT_LT(got, kLimit);
  }));
}

}  // namespace
}  // namespace symccl
