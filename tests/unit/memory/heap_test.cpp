#include "memory/heap.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/host.hpp"
#include "heap_fixture.hpp"
#include "in_child.hpp"

namespace symccl {
namespace {

std::size_t reserveOrDie(Heap& heap, std::size_t bytes, Backing backing) {
  const auto offset = heap.reserve(bytes, backing);
  EXPECT_TRUE(offset) << offset.error().message();
  return offset ? *offset : 0;
}

TEST(Heap, IsOneSealedMemfd) {
  Heap& heap = heapOf(0);
  EXPECT_EQ(heap.bytes(), 256 * kMebibyte) << "SYMCCL_HEAP_SIZE of this test";
  const int fd = heap.descriptor();
  EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(::ftruncate(fd, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(2 * heap.bytes())), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1) << "nobody can add a seal that stops writers";
}

TEST(Heap, OnePerOrdinalAtItsWindow) {
  Heap& heap = heapOf(1);
  EXPECT_EQ(&heapOf(1), &heap);
  EXPECT_EQ(heap.ordinal(), 1);
  EXPECT_TRUE(heap.symmetric());
  EXPECT_EQ(heap.base(), windowAddress(1));
  Heap& other = heapOf(2);
  EXPECT_NE(&other, &heap);
  EXPECT_NE(other.id(), heap.id());
  for (const int bad : {-2, 64, 1000}) {
    const auto refused = Heap::ofDevice(bad);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::invalid);
  }
}

TEST(Heap, IsFoundByAddress) {
  Heap& heap = heapOf(3);
  Heap& other = heapOf(4);
  EXPECT_EQ(Heap::containing(heap.base()), &heap);
  EXPECT_EQ(Heap::containing(heap.base() + heap.bytes() - 1), &heap);
  EXPECT_EQ(Heap::containing(heap.base() + heap.bytes()), nullptr);
  EXPECT_EQ(Heap::containing(heap.base() - 1), nullptr);
  EXPECT_EQ(Heap::containing(other.base() + 12345), &other);
  EXPECT_EQ(Heap::containing(nullptr), nullptr);
  EXPECT_EQ(Heap::containing(&heap), nullptr);
}

TEST(Heap, ReservedSegmentsHaveTheirPages) {
  Heap& heap = heapOf(5);
  EXPECT_EQ(pagesOf(heap), 0u);
  const std::size_t offset = reserveOrDie(heap, 3 * kMebibyte, Backing::reserved);
  EXPECT_EQ(pagesOf(heap), 4 * kMebibyte) << "rounded up to granules";
  EXPECT_EQ(heap.report().used, 4 * kMebibyte);
  EXPECT_TRUE(isZero(heap.base() + offset, 4 * kMebibyte));
  fillPattern(heap.base() + offset, 4 * kMebibyte, 1);
  heap.release(offset);
  EXPECT_EQ(pagesOf(heap), 0u) << "given back";
  EXPECT_EQ(heap.report().used, 0u);
  EXPECT_EQ(heap.report().peak, 4 * kMebibyte);
  ASSERT_EQ(reserveOrDie(heap, 4 * kMebibyte, Backing::reserved), offset);
  EXPECT_TRUE(isZero(heap.base() + offset, 4 * kMebibyte)) << "fresh pages are zero";
  heap.release(offset);
}

TEST(Heap, SparseSegmentsGetPagesWhenBacked) {
  Heap& heap = heapOf(6);
  const std::size_t offset = reserveOrDie(heap, 8 * kMebibyte, Backing::sparse);
  EXPECT_EQ(pagesOf(heap), 0u);
  ASSERT_TRUE(heap.back(offset + kMebibyte + 5, 1));
  const std::size_t one = pagesOf(heap);
  EXPECT_GT(one, 0u);
  EXPECT_LE(one, 64u << 10);
  std::byte* const written = heap.base() + offset + kMebibyte;
  fillPattern(written, one, 2);
  ASSERT_TRUE(heap.back(offset + kMebibyte + 5, 1));
  EXPECT_EQ(pagesOf(heap), one) << "a second time changes nothing";
  ASSERT_TRUE(heap.back(offset, 8 * kMebibyte));
  EXPECT_EQ(pagesOf(heap), 8 * kMebibyte);
  EXPECT_TRUE(hasPattern(written, one, 2)) << "what was there stays";
  ASSERT_TRUE(heap.back(offset, 0));
  heap.release(offset);
  EXPECT_EQ(pagesOf(heap), 0u);
  ASSERT_EQ(reserveOrDie(heap, 2 * kMebibyte, Backing::sparse), offset);
  ASSERT_TRUE(heap.back(offset, 2 * kMebibyte)) << "the released segment's pages are not taken for this one's";
  EXPECT_EQ(pagesOf(heap), 2 * kMebibyte);
  EXPECT_TRUE(isZero(heap.base() + offset, 2 * kMebibyte));
  heap.release(offset);
}

TEST(Heap, BackingOutsideTheHeapIsABug) {
  Heap& heap = heapOf(6);
  for (const auto& [offset, bytes] : {std::pair<std::size_t, std::size_t>{heap.bytes(), 1}, {1, SIZE_MAX}}) {
    const Status refused = heap.back(offset, bytes);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::internal);
  }
}

TEST(Heap, DiscardGivesPagesBackAndKeepsTheSegment) {
  Heap& heap = heapOf(7);
  constexpr std::size_t kPage = 4096;
  const std::size_t offset = reserveOrDie(heap, 2 * kMebibyte, Backing::reserved);
  std::byte* const base = heap.base() + offset;
  fillPattern(base, 2 * kMebibyte, 3);
  heap.discard(offset + 3 * kPage, 5 * kPage);
  EXPECT_EQ(pagesOf(heap), 2 * kMebibyte - 5 * kPage);
  ASSERT_TRUE(heap.back(offset, 2 * kMebibyte));
  EXPECT_EQ(pagesOf(heap), 2 * kMebibyte) << "reserved again";
  EXPECT_TRUE(hasPattern(base, 3 * kPage, 3));
  EXPECT_TRUE(isZero(base + 3 * kPage, 5 * kPage));
  for (std::size_t i = 8 * kPage; i < 2 * kMebibyte; ++i) {
    ASSERT_EQ(static_cast<std::uint8_t>(base[i]), patternByte(3, i)) << "the neighbours stay";
  }
  EXPECT_EQ(heap.report().used, 2 * kMebibyte);
  heap.release(offset);
}

TEST(Heap, ExhaustionSaysWhatToDo) {
  Heap& heap = heapOf(8);
  EXPECT_EQ(heap.reserve(0, Backing::reserved).error().code(), Code::invalid);
  const std::size_t offset = reserveOrDie(heap, 200 * kMebibyte, Backing::sparse);
  for (const std::size_t bytes : {57 * kMebibyte, SIZE_MAX, SIZE_MAX - kGranule + 1}) {
    const auto refused = heap.reserve(bytes, Backing::reserved);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::memory);
    const std::string& message = refused.error().message();
    for (const std::string& part :
         {"asked " + bytesText(bytes), std::string("free 56 MiB"), std::string("limit 256 MiB"),
          std::string("SYMCCL_HEAP_SIZE"), std::string("device 8")}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
    }
  }
  EXPECT_TRUE(heap.reserve(56 * kMebibyte, Backing::sparse)) << "an error takes nothing";
  heap.release(offset);
}

TEST(Heap, ReleasingNothingIsIgnored) {
  Heap& heap = heapOf(9);
  const std::size_t offset = reserveOrDie(heap, 4 * kMebibyte, Backing::sparse);
  heap.release(offset + kGranule);
  heap.release(offset + 100 * kGranule);
  EXPECT_EQ(heap.report().used, 4 * kMebibyte);
  heap.release(offset);
  heap.release(offset);
  EXPECT_EQ(heap.report().used, 0u);
}

TEST(Heap, EqualCallsGiveEqualOffsets) {
  std::vector<std::size_t> offsets[2];
  for (int which = 0; which < 2; ++which) {
    Heap& heap = heapOf(10 + which);
    auto& got = offsets[which];
    for (const std::size_t mebibytes : {3, 1, 7, 2, 16}) {
      got.push_back(reserveOrDie(heap, mebibytes * kMebibyte, Backing::sparse));
    }
    heap.release(got[1]);
    heap.release(got[3]);
    for (const std::size_t mebibytes : {5, 2, 1}) {
      got.push_back(reserveOrDie(heap, mebibytes * kMebibyte, Backing::sparse));
    }
  }
  EXPECT_EQ(offsets[0], offsets[1]);
}

TEST(Heap, ShrinksToALimitedAddressSpace) {
  EXPECT_TRUE(passesInChild([] {
#if defined(SYMCCL_THREAD_SANITIZER) || defined(__SANITIZE_ADDRESS__)
    return;  // their shadow takes more address space than any such limit
#endif
    ::setenv("LOCAL_WORLD_SIZE", "2", 1);
    rlimit limit{};
    const std::size_t mapped = SIZE_MAX == addressSpaceLeft() ? 0 : SIZE_MAX;
    ASSERT_EQ(mapped, 0u) << "run this test without ulimit -v";
    limit.rlim_cur = limit.rlim_max = std::size_t{64} << 40;
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
    const std::size_t used = (std::size_t{64} << 40) - addressSpaceLeft();
    limit.rlim_cur = limit.rlim_max = used + 4 * 100 * kMebibyte;
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
    Heap& heap = heapOf(12);
    EXPECT_LE(heap.bytes(), 100 * kMebibyte);
    EXPECT_GE(heap.bytes(), 96 * kMebibyte);
    const auto refused = heap.reserve(150 * kMebibyte, Backing::sparse);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message().find("ulimit -v"), std::string::npos) << refused.error().message();

    limit.rlim_cur = limit.rlim_max = used + 200 * kMebibyte;  // of which the first heap takes a part
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
    const auto none = Heap::ofDevice(13);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code(), Code::memory);
    EXPECT_NE(none.error().message().find("ulimit -v"), std::string::npos) << none.error().message();
  }));
}

TEST(Heap, ShrinksToTheLimitOfFilesInPlaceOfBeingKilled) {
  EXPECT_TRUE(passesInChild([] {
    rlimit limit{100 * kMebibyte, 100 * kMebibyte};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    Heap& heap = heapOf(14);
    EXPECT_EQ(heap.bytes(), 100 * kMebibyte);
    EXPECT_TRUE(heap.reserve(2 * kMebibyte, Backing::reserved));
  }));
}

TEST(Heap, WithoutDescriptorsIsAnErrorThatNamesTheCall) {
  EXPECT_TRUE(passesInChild([] {
    const rlimit none{3, 3};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    const auto refused = Heap::ofDevice(15);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::system) << refused.error().message();
    EXPECT_NE(refused.error().message().find("memfd_create"), std::string::npos) << refused.error().message();
    EXPECT_NE(refused.error().message().find("EMFILE"), std::string::npos) << refused.error().message();
  }));
}

TEST(Heap, StandsElsewhereWhereItsWindowIsTaken) {
  EXPECT_TRUE(passesInChild([] {
    void* taken = ::mmap(windowAddress(16), 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    ASSERT_EQ(taken, windowAddress(16));
    Heap& heap = heapOf(16);
    EXPECT_FALSE(heap.symmetric());
    EXPECT_FALSE(heapReport(16)->symmetric);
    const std::size_t offset = reserveOrDie(heap, 2 * kMebibyte, Backing::reserved);
    fillPattern(heap.base() + offset, 2 * kMebibyte, 4);
    EXPECT_TRUE(hasPattern(heap.base() + offset, 2 * kMebibyte, 4));
    EXPECT_EQ(Heap::containing(heap.base() + 1), &heap);
  }));
}

}  // namespace
}  // namespace symccl
