#include "memory/window.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "base/checks.hpp"
#include "base/host.hpp"
#include "base/log.hpp"
#include "memory/granules.hpp"

namespace symccl {
namespace {

// Ranks use memory alike, so what they need at the same time lies at the same offset of each heap. AMD's processors
// find the way of their first-level cache by a hash of the linear address, bits 12 to 27 (Lipp et al., "Take A Way",
// 2020): lines whose addresses differ above only drive each other out, and reading 8 heaps took twice as long. So each
// window starts a granule further than a round distance.
constexpr std::uintptr_t kSkew = kGranule;

#ifdef SYMCCL_THREAD_SANITIZER
// ThreadSanitizer lets programs map only what its shadow covers.
constexpr std::uintptr_t kWindowBase = 0x7e90'0000'0000;
constexpr std::uintptr_t kWindowStride = (std::uintptr_t{16} << 30) + kSkew;
#else
constexpr std::uintptr_t kWindowBase = 0x1080'0000'0000;
constexpr std::uintptr_t kWindowStride = (std::uintptr_t{1} << 40) + kSkew;
#endif

constexpr int kProtection = PROT_READ | PROT_WRITE;
constexpr int kFlags = MAP_SHARED | MAP_NORESERVE;

// At a whole granule, so that huge pages fit, and each time another number of them further. What is left of the room
// that this takes is given back.
void* mapAnywhere(int descriptor, std::size_t bytes) {
  constexpr std::size_t kSkews = 64;
  static std::atomic<std::size_t> turn{0};
  const std::size_t roomBytes = bytes + (kSkews + 1) * kSkew;
  void* const room = ::mmap(nullptr, roomBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return MAP_FAILED;
  auto* const first = static_cast<std::byte*>(room);
  const auto address = reinterpret_cast<std::uintptr_t>(room);
  const std::size_t front = roundUp(address, kGranule) - address + ++turn % kSkews * kSkew;
  void* const base = ::mmap(first + front, bytes, kProtection, kFlags | MAP_FIXED, descriptor, 0);
  const int number = errno;
  if (base == MAP_FAILED) {
    ::munmap(room, roomBytes);
  } else {
    ::munmap(room, front);
    ::munmap(first + front + bytes, roomBytes - front - bytes);
  }
  errno = number;
  return base;
}

}  // namespace

std::byte* windowAddress(int ordinal) {
  return reinterpret_cast<std::byte*>(kWindowBase + static_cast<std::uintptr_t>(ordinal) * kWindowStride);
}

Result<std::byte*> mapAtWindow(int descriptor, int ordinal, std::size_t bytes) {
  std::byte* const window = windowAddress(ordinal);
  // Kernels without MAP_FIXED_NOREPLACE take the address as a hint; then it may come out elsewhere, as when it is
  // taken.
  void* base = ::mmap(window, bytes, kProtection, kFlags | MAP_FIXED_NOREPLACE, descriptor, 0);
  if (base == MAP_FAILED) base = mapAnywhere(descriptor, bytes);
  if (base == MAP_FAILED) {
    const bool tooLarge = errno == ENOMEM;
    const Error refused = systemError("mapping a heap of ", bytesText(bytes));
    if (!tooLarge) return refused;
    return Error(Code::memory, refused.message() +
                                   "; the address space may be limited (ulimit -v), or SYMCCL_HEAP_SIZE "
                                   "too large for this machine");
  }
  ::madvise(base, bytes, MADV_DONTDUMP);
  if (base != window) {
    log(LogLevel::info, "HEAP", -1, "the window of device ", ordinal, " at ", static_cast<void*>(window),
        " is taken; its heap is mapped at ", base);
  }
  return static_cast<std::byte*>(base);
}

}  // namespace symccl
