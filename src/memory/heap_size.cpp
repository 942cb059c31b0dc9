#include "memory/heap_size.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/checks.hpp"
#include "base/environment.hpp"
#include "base/host.hpp"
#include "memory/granules.hpp"
#include "memory/window.hpp"

namespace symccl {
namespace {

// Without a launcher: a few ranks, rather than one that leaves its peers' heaps no room.
constexpr int kRanksUnknown = 4;

int ranksOfThisHost() {
  for (const char* name : {"LOCAL_WORLD_SIZE", "WORLD_SIZE"}) {
    const char* value = std::getenv(name);
    if (!value) continue;
    int ranks = 0;
    const auto [end, error] = std::from_chars(value, value + std::strlen(value), ranks);
    if (error == std::errc() && *end == '\0' && ranks > 0) return std::min(ranks, kDevices);
  }
  return kRanksUnknown;
}

}  // namespace

HeapLimits heapLimits() {
  HeapLimits limits{environment().heapBytes, addressSpaceLeft(), SIZE_MAX, ranksOfThisHost()};
  rlimit file{};
  if (::getrlimit(RLIMIT_FSIZE, &file) == 0 && file.rlim_cur != RLIM_INFINITY) limits.fileSize = file.rlim_cur;
  return limits;
}

Result<HeapSize> fitHeap(const HeapLimits& limits) {
  HeapSize size{limits.asked, "SYMCCL_HEAP_SIZE"};
  const auto lower = [&](std::size_t bytes, std::string raise) {
    if (bytes < size.bytes) size = {bytes, std::move(raise)};
  };
  if (limits.addressSpace != SIZE_MAX) {
    lower(limits.addressSpace / 2 / static_cast<std::size_t>(limits.ranks),
          text("the limit of the address space (ulimit -v): ", bytesText(limits.addressSpace), " of it are left, for ",
               limits.ranks, " ranks"));
  }
  lower(limits.fileSize, "the limit of file sizes (ulimit -f)");
  size.bytes = size.bytes / kGranule * kGranule;
  if (size.bytes >= kHeapLeast) return size;
  return Error(Code::memory, text("room for a heap of only ", bytesText(size.bytes), ", at least ",
                                  bytesText(kHeapLeast), " are needed; raise ", size.raise));
}

}  // namespace symccl
