// What the kernel may answer when pages are reserved or given back, played by a fallocate() of this test's own.

#include "memory/pages.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>

#include "heap_fixture.hpp"

namespace {

/// errno for a call, or 0 to let it through.
std::function<int(int mode, off_t bytes)> refusal;
std::atomic<int> calls{0};

}  // namespace

extern "C" int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  ++calls;
  if (const int number = refusal ? refusal(mode, bytes) : 0) {
    errno = number;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fallocate, fd, mode, offset, bytes));
}

namespace symccl {
namespace {

class Pages : public testing::Test {
 protected:
  void SetUp() override { calls = 0; }
  void TearDown() override { refusal = nullptr; }
};

bool punches(int mode) { return (mode & FALLOC_FL_PUNCH_HOLE) != 0; }

TEST_F(Pages, LongCallsThatAreAlwaysInterruptedBecomeShorter) {
  Heap& heap = heapOf(49);
  refusal = [](int mode, off_t bytes) { return !punches(mode) && bytes > off_t{5} << 20 ? EINTR : 0; };
  const auto offset = heap.reserve(101 * kMebibyte, Backing::reserved);
  ASSERT_TRUE(offset) << offset.error().message();
  EXPECT_GT(calls, 10) << "this test's own fallocate() is the one that is called";
  EXPECT_EQ(pagesOf(heap), 102 * kMebibyte);
  heap.release(*offset);
  EXPECT_EQ(pagesOf(heap), 0u);
}

TEST_F(Pages, InterruptionsAreNoFailure) {
  Heap& heap = heapOf(49);
  refusal = [](int, off_t) { return calls % 3 != 0 ? EINTR : 0; };
  const auto offset = heap.reserve(40 * kMebibyte, Backing::reserved);
  ASSERT_TRUE(offset) << offset.error().message();
  EXPECT_EQ(pagesOf(heap), 40 * kMebibyte);
  heap.release(*offset);
  EXPECT_EQ(pagesOf(heap), 0u);
}

TEST_F(Pages, AFailureInTheMiddleLeavesNothing) {
  Heap& heap = heapOf(49);
  for (const auto& [number, code, name] : {std::tuple{ENOSPC, Code::memory, "ENOSPC"},
                                           {ENOMEM, Code::memory, "ENOMEM"},
                                           {EOPNOTSUPP, Code::system, "EOPNOTSUPP"}}) {
    calls = 0;
    refusal = [number = number](int mode, off_t) { return !punches(mode) && calls > 2 ? number : 0; };
    const auto refused = heap.reserve(200 * kMebibyte, Backing::reserved);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), code);
    EXPECT_NE(refused.error().message().find(name), std::string::npos) << refused.error().message();
    EXPECT_NE(refused.error().message().find("200 MiB"), std::string::npos) << refused.error().message();
    EXPECT_EQ(calls, 4) << "two slices, the refusal, and what was there is given back";
    EXPECT_EQ(pagesOf(heap), 0u);
    EXPECT_EQ(heap.report().used, 0u);
  }
}

TEST_F(Pages, BackingThatFailsKeepsWhatIsThere) {
  Heap& heap = heapOf(62);
  const std::size_t offset = *heap.reserve(64 * kMebibyte, Backing::sparse);
  ASSERT_TRUE(heap.back(offset + 10 * kMebibyte, kMebibyte));
  fillPattern(heap.base() + offset + 10 * kMebibyte, kMebibyte, 19);
  refusal = [](int, off_t) { return calls > 2 ? ENOSPC : 0; };
  EXPECT_EQ(heap.back(offset, 64 * kMebibyte).error().code(), Code::memory);
  EXPECT_TRUE(hasPattern(heap.base() + offset + 10 * kMebibyte, kMebibyte, 19));
  refusal = nullptr;
  EXPECT_TRUE(heap.back(offset, 64 * kMebibyte)) << "it can be tried again";
  EXPECT_TRUE(hasPattern(heap.base() + offset + 10 * kMebibyte, kMebibyte, 19));
  EXPECT_EQ(pagesOf(heap), 64 * kMebibyte);
  heap.release(offset);
  EXPECT_EQ(pagesOf(heap), 0u);
}

TEST_F(Pages, WhatCannotBeEmptiedIsNotHandedOutAgain) {
  Heap& heap = heapOf(63);
  const std::size_t offset = *heap.reserve(2 * kMebibyte, Backing::reserved);
  fillPattern(heap.base() + offset, 2 * kMebibyte, 20);
  refusal = [](int mode, off_t) { return punches(mode) ? EOPNOTSUPP : 0; };
  heap.release(offset);
  refusal = nullptr;
  const std::size_t next = *heap.reserve(2 * kMebibyte, Backing::reserved);
  EXPECT_NE(next, offset);
  EXPECT_TRUE(isZero(heap.base() + next, 2 * kMebibyte));
  heap.release(next);
}

// From the kernel's own account of the mapping that holds `address`.
std::size_t hugeBytesAt(const std::byte* address) {
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0, last = 0;
    std::size_t kibibytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &last) == 2) {
      const auto at = reinterpret_cast<std::uintptr_t>(address);
      here = at >= first && at < last;
    } else if (here && std::sscanf(line.c_str(), "ShmemPmdMapped: %zu kB", &kibibytes) == 1) {
      return kibibytes << 10;
    }
  }
  return 0;
}

TEST_F(Pages, WholeGranulesBecomeHugeWhereTheKernelCan) {
  Heap& heap = heapOf(33);
  const std::size_t probe = *heap.reserve(2 * kMebibyte, Backing::reserved);
  const bool can = makeHuge(heap.base(), probe, 2 * kMebibyte);
  heap.release(probe);
  const std::size_t offset = *heap.reserve(6 * kMebibyte, Backing::reserved);
  EXPECT_EQ(hugeBytesAt(heap.base()), can ? 6 * kMebibyte : 0);
  EXPECT_EQ(pagesOf(heap), 6 * kMebibyte);
  EXPECT_TRUE(isZero(heap.base() + offset, 6 * kMebibyte));
  fillPattern(heap.base() + offset, 6 * kMebibyte, 21);
  heap.discard(offset + kMebibyte, kMebibyte);
  EXPECT_TRUE(hasPattern(heap.base() + offset, kMebibyte, 21));
  EXPECT_TRUE(isZero(heap.base() + offset + kMebibyte, kMebibyte));
  heap.release(offset);
  EXPECT_EQ(pagesOf(heap), 0u);
}

TEST_F(Pages, PartsOfAGranuleStaySmall) {
  Heap& heap = heapOf(34);
  const std::size_t offset = *heap.reserve(4 * kMebibyte, Backing::sparse);
  ASSERT_TRUE(heap.back(offset + kMebibyte, 2 * kMebibyte));
  EXPECT_EQ(hugeBytesAt(heap.base()), 0u);
  EXPECT_EQ(pagesOf(heap), 2 * kMebibyte);
  heap.release(offset);
}

}  // namespace
}  // namespace symccl
