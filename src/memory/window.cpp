#include "memory/window.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>

#include "base/checks.hpp"
#include "base/host.hpp"
#include "base/log.hpp"

namespace symccl {
namespace {

#ifdef SYMCCL_THREAD_SANITIZER
// ThreadSanitizer lets programs map only what its shadow covers.
constexpr std::uintptr_t kWindowBase = 0x7e90'0000'0000;
constexpr std::uintptr_t kWindowStride = std::uintptr_t{16} << 30;
#else
constexpr std::uintptr_t kWindowBase = 0x1080'0000'0000;
constexpr std::uintptr_t kWindowStride = std::uintptr_t{1} << 40;
#endif

constexpr int kProtection = PROT_READ | PROT_WRITE;
constexpr int kFlags = MAP_SHARED | MAP_NORESERVE;

}  // namespace

std::byte* windowAddress(int ordinal) {
  return reinterpret_cast<std::byte*>(kWindowBase + static_cast<std::uintptr_t>(ordinal) * kWindowStride);
}

Result<std::byte*> mapAtWindow(int descriptor, int ordinal, std::size_t bytes) {
  std::byte* const window = windowAddress(ordinal);
  // Kernels without MAP_FIXED_NOREPLACE take the address as a hint; then it may come out elsewhere, as when it is
  // taken.
  void* base = ::mmap(window, bytes, kProtection, kFlags | MAP_FIXED_NOREPLACE, descriptor, 0);
  if (base == MAP_FAILED) base = ::mmap(nullptr, bytes, kProtection, kFlags, descriptor, 0);
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
