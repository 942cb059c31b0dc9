#include "memory/mapped_heap.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "heap_fixture.hpp"
#include "in_child.hpp"

namespace symccl {
namespace {

FileDescriptor duplicate(int fd) { return FileDescriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

FileDescriptor memfd(std::size_t bytes, int seals) {
  FileDescriptor memory(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(memory.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(memory.get(), F_ADD_SEALS, seals), 0);
  return memory;
}

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

TEST(MappedHeap, IsTheSameMemory) {
  Heap& heap = heapOf(40);
  const std::size_t offset = *heap.reserve(2 * kMebibyte, Backing::reserved);
  auto mapped = MappedHeap::map(duplicate(heap.descriptor()), heap.id(), heap.ordinal(), heap.bytes());
  ASSERT_TRUE(mapped) << mapped.error().message();
  MappedHeap& peer = **mapped;
  EXPECT_EQ(peer.id(), heap.id());
  EXPECT_EQ(peer.bytes(), heap.bytes());
  EXPECT_EQ(peer.ordinal(), 40);
  EXPECT_FALSE(peer.symmetric()) << "the heap itself stands at the window";
  EXPECT_NE(peer.base(), heap.base());
  fillPattern(heap.base() + offset, 2 * kMebibyte, 6);
  peer.populate(offset, 2 * kMebibyte);
  EXPECT_TRUE(hasPattern(peer.base() + offset, 2 * kMebibyte, 6));
  fillPattern(peer.base() + offset, 2 * kMebibyte, 7);
  EXPECT_TRUE(hasPattern(heap.base() + offset, 2 * kMebibyte, 7));
  heap.release(offset);
  EXPECT_TRUE(isZero(peer.base() + offset, 2 * kMebibyte)) << "released pages go from every mapping";
}

// A child makes a heap and tells where; its memory is opened by way of /proc.
TEST(MappedHeap, StandsAtTheSameAddressInAnotherProcess) {
  std::array<int, 2> toParent{}, toChild{};
  ASSERT_EQ(::pipe2(toParent.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(toChild.data(), O_CLOEXEC), 0);
  struct Told {
    int fd;
    std::size_t bytes, offset;
    std::byte* base;
    Uuid id;
  };
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    Heap& heap = heapOf(41);
    const std::size_t offset = *heap.reserve(6 * kMebibyte, Backing::reserved) + 4 * kMebibyte;
    fillPattern(heap.base() + offset, kMebibyte, 8);
    const Told told{heap.descriptor(), heap.bytes(), offset, heap.base(), heap.id()};
    char done = 0;
    bool good = ::write(toParent[1], &told, sizeof told) == sizeof told && ::read(toChild[0], &done, 1) == 1;
    good = good && hasPattern(heap.base() + offset, kMebibyte, 9);
    ::_exit(good ? 0 : 1);
  }
  Told told{};
  ASSERT_EQ(::read(toParent[0], &told, sizeof told), static_cast<ssize_t>(sizeof told));
  const std::string path = "/proc/" + std::to_string(child) + "/fd/" + std::to_string(told.fd);
  FileDescriptor memory(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(memory);
  auto peer = MappedHeap::map(std::move(memory), told.id, 41, told.bytes);
  ASSERT_TRUE(peer) << peer.error().message();
  EXPECT_TRUE((*peer)->symmetric());
  EXPECT_EQ((*peer)->base(), told.base);
  EXPECT_TRUE(hasPattern(told.base + told.offset, kMebibyte, 8)) << "the child's own address is right here too";
  fillPattern(told.base + told.offset, kMebibyte, 9);
  ASSERT_EQ(::write(toChild[1], "x", 1), 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(hasPattern(told.base + told.offset, kMebibyte, 9)) << "outlives its owner";
  for (const int fd : {toParent[0], toParent[1], toChild[0], toChild[1]}) ::close(fd);
}

TEST(MappedHeap, FallsBackWhereTheRangeIsTaken) {
  void* taken =
      ::mmap(windowAddress(42) + kMebibyte, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_NE(taken, MAP_FAILED);
  const auto mapped = MappedHeap::map(memfd(4 * kMebibyte, kSeals), randomUuid(), 42, 4 * kMebibyte);
  ASSERT_TRUE(mapped) << mapped.error().message();
  EXPECT_FALSE((*mapped)->symmetric());
  fillPattern((*mapped)->base(), 4 * kMebibyte, 10);
  EXPECT_TRUE(hasPattern((*mapped)->base(), 4 * kMebibyte, 10));
  ::munmap(taken, 4096);
}

TEST(MappedHeap, RefusesWhatIsNoHeap) {
  const std::size_t bytes = 4 * kMebibyte;
  const Uuid id = randomUuid();
  const auto refuses = [&](FileDescriptor memory, int ordinal, std::size_t said, const char* why) {
    const auto mapped = MappedHeap::map(std::move(memory), id, ordinal, said);
    ASSERT_FALSE(mapped) << why;
    EXPECT_EQ(mapped.error().code(), Code::corrupt) << why;
    EXPECT_NE(mapped.error().message().find(why), std::string::npos) << mapped.error().message();
  };
  refuses(memfd(bytes, 0), 43, bytes, "not sealed");
  refuses(memfd(bytes, F_SEAL_SHRINK | F_SEAL_GROW), 43, bytes, "not sealed");
  refuses(memfd(bytes, F_SEAL_GROW | F_SEAL_SEAL), 43, bytes, "not sealed");
  refuses(memfd(bytes, kSeals), 43, 2 * bytes, "the peer said");
  refuses(memfd(bytes, kSeals), 43, bytes / 2, "the peer said");
  refuses(memfd(bytes, kSeals), 43, 0, "granules");
  refuses(memfd(bytes, kSeals), 43, bytes - 1, "granules");
  refuses(memfd(bytes, kSeals), -1, bytes, "device -1");
  refuses(memfd(bytes, kSeals), 64, bytes, "device 64");
  refuses(FileDescriptor(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), 43, bytes, "no memfd");
  refuses(FileDescriptor(), 43, bytes, "no memfd");
}

TEST(MappedHeap, PopulateSparesTheFaults) {
  constexpr std::size_t kBytes = 16 * kMebibyte, kPage = 4096;
  Heap& heap = heapOf(44);
  const std::size_t offset = *heap.reserve(kBytes, Backing::reserved);
  if (::madvise(heap.base() + offset, kPage, 22 /* MADV_POPULATE_READ */) != 0) GTEST_SKIP() << "this kernel cannot";
  auto mapped = MappedHeap::map(duplicate(heap.descriptor()), heap.id(), 44, heap.bytes());
  ASSERT_TRUE(mapped);
  MappedHeap& peer = **mapped;
  peer.populate(offset + 3 * kMebibyte, 1);
  peer.populate(offset, kBytes);
  peer.populate(offset, kBytes);
  rusage before{}, after{};
  ASSERT_EQ(::getrusage(RUSAGE_THREAD, &before), 0);
  unsigned sum = 0;
  for (std::size_t at = 0; at < kBytes; at += kPage) sum += static_cast<unsigned>(peer.base()[offset + at]);
  ASSERT_EQ(::getrusage(RUSAGE_THREAD, &after), 0);
  EXPECT_EQ(sum, 0u);
#if !defined(SYMCCL_THREAD_SANITIZER) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(after.ru_minflt - before.ru_minflt, 32) << "page by page it would be hundreds";
#endif
  peer.populate(heap.bytes() - 1, SIZE_MAX);
  peer.populate(heap.bytes(), 1);
  heap.release(offset);
}

TEST(MappedHeap, WithoutAddressSpaceIsAnError) {
  EXPECT_TRUE(passesInChild([] {
#if defined(SYMCCL_THREAD_SANITIZER) || defined(__SANITIZE_ADDRESS__)
    return;  // their shadow takes more address space than any such limit
#endif
    constexpr std::size_t kBytes = std::size_t{8} << 30;
    const rlimit limit{kBytes, kBytes};
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
    const auto mapped = MappedHeap::map(memfd(kBytes, kSeals), randomUuid(), 45, kBytes);
    ASSERT_FALSE(mapped);
    EXPECT_EQ(mapped.error().code(), Code::memory);
    EXPECT_NE(mapped.error().message().find("ulimit -v"), std::string::npos) << mapped.error().message();
  }));
}

}  // namespace
}  // namespace symccl
