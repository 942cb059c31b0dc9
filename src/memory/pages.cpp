#include "memory/pages.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/checks.hpp"
#include "base/environment.hpp"
#include "base/host.hpp"
#include "memory/granules.hpp"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace symccl {
namespace {

// Small enough that ranks which reserve at the same time see each other's progress, large enough that looking costs
// a few percent.
constexpr std::size_t kSlice = std::size_t{32} << 20;
// Left alone: what page tables take (1/512 in every process that maps the range), and other processes meanwhile.
constexpr std::size_t kMargin = std::size_t{64} << 20;

Status checkMemoryLeft(std::size_t bytes, std::size_t asked) {
  const MemoryLeft left = memoryLeft();
  const std::size_t margin = kMargin + bytes / 128;
  if (left.bytes >= margin && left.bytes - margin >= bytes) return {};
  return Error(Code::memory, text("asked ", bytesText(asked), ", free ", bytesText(left.bytes), " of which ",
                                  bytesText(margin), " are left alone; the limit is the ", left.limit));
}

}  // namespace

// MADV_COLLAPSE works whatever the machine's settings say about shared memory, but only where there is a page to begin
// with.
bool makeHuge(std::byte* mapped, std::size_t offset, std::size_t bytes) {
  const std::size_t first = roundUp(offset, kGranule), last = (offset + bytes) / kGranule * kGranule;
  if (first >= last) return true;
  for (std::size_t granule = first; granule < last; granule += kGranule) populateForWriting(mapped + granule, 1);
  return ::madvise(mapped + first, last - first, MADV_COLLAPSE) == 0;
}

Status reservePages(int descriptor, std::byte* mapped, std::size_t offset, std::size_t bytes) {
  bool huge = environment().hugePages;
  std::size_t slice = kSlice;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(slice, bytes - done);
    if (Status enough = checkMemoryLeft(bytes - done, bytes); !enough) return enough;
    huge = huge && makeHuge(mapped, offset + done, part);
    // Passes over what is there.
    if (::fallocate(descriptor, 0, static_cast<off_t>(offset + done), static_cast<off_t>(part)) == 0) {
      done += part;
    } else if (errno == EINTR) {
      // The kernel undoes an interrupted call, so under a fast interval timer a long one would never end.
      slice = std::max(kGranule, slice / 2);
    } else if (errno == ENOSPC || errno == ENOMEM) {
      return Error(Code::memory, systemError("reserving ", bytesText(bytes), " of shared memory").message());
    } else {
      return systemError("reserving ", bytesText(bytes), " of shared memory by fallocate");
    }
  }
  return {};
}

Status returnPages(int descriptor, std::size_t offset, std::size_t bytes) {
  constexpr int kMode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  int result = 0;
  do result = ::fallocate(descriptor, kMode, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  while (result != 0 && errno == EINTR);
  if (result != 0) return systemError("giving ", bytesText(bytes), " of shared memory back by fallocate");
  return {};
}

void populateForWriting(std::byte* address, std::size_t bytes) { ::madvise(address, bytes, MADV_POPULATE_WRITE); }

void populateForReading(std::byte* address, std::size_t bytes) { ::madvise(address, bytes, MADV_POPULATE_READ); }

}  // namespace symccl
