#include "memory/heap.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/checks.hpp"
#include "base/environment.hpp"
#include "base/fork.hpp"
#include "base/log.hpp"
#include "memory/heap_pools.hpp"
#include "memory/pages.hpp"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace symccl {
namespace {

// Pages are reserved in pieces of this size: a table of them stays small, and so does what is reserved beyond need.
constexpr std::size_t kBackingUnit = std::size_t{64} << 10;

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Result<FileDescriptor> makeMemory(int ordinal, std::size_t bytes) {
  const std::string name = text("symccl-heap-", ordinal);
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  // Asking for 'never executable' is what newer kernels want, and some demand; older ones do not know it.
  FileDescriptor memory(::memfd_create(name.c_str(), flags | MFD_NOEXEC_SEAL));
  if (!memory && errno == EINVAL) memory = FileDescriptor(::memfd_create(name.c_str(), flags));
  if (!memory) return systemError("memfd_create for the heap of device ", ordinal);
  if (::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) {
    return systemError("ftruncate of the heap of device ", ordinal, " to ", bytesText(bytes));
  }
  if (::fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) return systemError("sealing the heap of device ", ordinal);
  return memory;
}

void logShrunkOnce(const HeapSize& size, std::size_t asked) {
  static std::atomic<bool> said{false};
  if (size.bytes >= asked || said.exchange(true)) return;
  log(LogLevel::warn, "HEAP", -1, "the heap is ", bytesText(size.bytes), " in place of ", bytesText(asked),
      "; what raises it: ", size.raise);
}

}  // namespace

Result<Heap*> Heap::make(int ordinal) {
  if (Status settings = environmentStatus(); !settings) return settings.error();
  const std::string what = text("making the heap of device ", ordinal);
  const HeapLimits limits = heapLimits();
  Result<HeapSize> size = fitHeap(limits);
  if (!size) return size.error().in(what);
  const MemoryLeft left = memoryLeft();
  if (left.bytes < kHeapLeast) {
    return Error(Code::memory, text(what, ": only ", bytesText(left.bytes), " of memory are free, at least ",
                                    bytesText(kHeapLeast), " are needed; the limit is the ", left.limit));
  }
  logShrunkOnce(*size, limits.asked);
  Result<FileDescriptor> memory = makeMemory(ordinal, size->bytes);
  if (!memory) return memory.error();
  Result<std::byte*> base = mapAtWindow(memory->get(), ordinal, size->bytes);
  if (!base) return base.error().in(what);
  return new Heap(ordinal, *std::move(memory), *base, *std::move(size));
}

Heap::Heap(int ordinal, FileDescriptor memory, std::byte* base, HeapSize size)
    : ordinal_(ordinal),
      id_(randomUuid()),
      memory_(std::move(memory)),
      base_(base),
      bytes_(size.bytes),
      raise_(std::move(size.raise)),
      forkGeneration_(forkGeneration()),
      segments_(bytes_, kGranule),
      backed_(bytes_ / kBackingUnit),
      pins_(new std::atomic<std::uint32_t>[bytes_ / kGranule]()),
      pools_(new HeapPools(*this)) {}

bool Heap::inherited() const { return forkGeneration_ != forkGeneration(); }

Error Heap::forkedError() const {
  return Error(Code::forked,
               text("the heap of device ", ordinal_,
                    " belongs to the parent of this forked process: memory that was allocated there can be "
                    "used here, but not allocated; make a new pool in this process"));
}

Error Heap::exhausted(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  return Error(Code::memory, text("the heap of device ", ordinal_, " is exhausted: asked ", bytesText(bytes), ", free ",
                                  bytesText(segments_.free()), " (largest piece ", bytesText(segments_.largestFree()),
                                  "), limit ", bytesText(bytes_), "; what raises it: ", raise_));
}

Result<std::size_t> Heap::reserve(std::size_t bytes, Backing backing) {
  if (inherited()) return forkedError();
  if (bytes == 0) return invalid("a segment of 0 bytes; accepted: 1 to ", bytes_);
  Range range{};
  {
    const std::lock_guard lock(mutex_);
    if (const auto offset = segments_.take(bytes)) {
      range = {*offset, segments_.sizeAt(*offset)};
      used_ += range.bytes;
      peak_ = std::max(peak_, used_);
    }
  }
  if (range.bytes == 0) return exhausted(bytes);
  if (backing == Backing::reserved) {
    if (Status pages = back(range.offset, range.bytes); !pages) {
      returnSegment(range);
      return pages.error();
    }
  }
  return range.offset;
}

void Heap::release(std::size_t offset) {
  if (inherited()) return;
  {
    const std::lock_guard lock(mutex_);
    const Range range{offset, segments_.sizeAt(offset)};
    const bool twice = std::any_of(limbo_.begin(), limbo_.end(), [&](Range r) { return r.offset == offset; });
    if (range.bytes == 0 || twice) {
      log(LogLevel::warn, "HEAP", -1, "bug in SymCCL: no segment at offset ", offset, " of device ", ordinal_,
          " to release");
      return;
    }
    limbo_.push_back(range);
    inLimbo_.store(limbo_.size());
  }
  sweepLimbo();
}

// Either unpin() sees a segment in limbo, or this sees that nothing pins it: both sides write, then look, in one order.
void Heap::sweepLimbo() {
  std::vector<Range> ready;
  {
    const std::lock_guard lock(mutex_);
    const auto firstReady = std::stable_partition(limbo_.begin(), limbo_.end(), [&](Range r) { return pinned(r); });
    ready.assign(firstReady, limbo_.end());
    limbo_.erase(firstReady, limbo_.end());
    inLimbo_.store(limbo_.size());
  }
  for (const Range range : ready) returnSegment(range);
}

void Heap::returnSegment(Range range) {
  const UnitRange units = unitsOf(range.offset, range.bytes, kBackingUnit);
  {
    const std::lock_guard lock(pagesMutex_);
    if (Status returned = returnPages(memory_.get(), range.offset, range.bytes); !returned) {
      // Never handed out again: fresh pages must be zero.
      log(LogLevel::warn, "HEAP", -1, "a segment of device ", ordinal_, " is lost: ", returned.error().message());
      return;
    }
    backed_.clear(units.first, units.count);
  }
  const std::lock_guard lock(mutex_);
  used_ -= segments_.give(range.offset);
}

Status Heap::back(std::size_t offset, std::size_t bytes) {
  if (inherited()) return forkedError();
  if (offset > bytes_ || bytes > bytes_ - offset) {
    return internalError("backing ", bytes, " bytes at offset ", offset, " of a heap of ", bytes_);
  }
  const UnitRange units = unitsOf(offset, bytes, kBackingUnit);
  if (backed_.all(units.first, units.count)) return {};
  if (Status status = backUnits(units); !status) {
    return status.error().in(text("reserving memory in the heap of device ", ordinal_));
  }
  populateForWriting(base_ + units.first * kBackingUnit, units.count * kBackingUnit);
  return {};
}

// What an error leaves reserved stays so: a later call finds it there, release() returns it.
Status Heap::backUnits(UnitRange units) {
  const std::lock_guard lock(pagesMutex_);
  const std::size_t end = units.first + units.count;
  for (std::size_t unit = units.first; unit < end;) {
    std::size_t next = unit;
    while (next < end && !backed_.test(next)) ++next;
    if (next > unit) {
      Status pages = reservePages(memory_.get(), base_, unit * kBackingUnit, (next - unit) * kBackingUnit);
      if (!pages) return pages;
      backed_.set(unit, next - unit);
    }
    unit = next + 1;
  }
  return {};
}

void Heap::discard(std::size_t offset, std::size_t bytes) {
  if (inherited() || bytes == 0) return;
  const std::lock_guard lock(pagesMutex_);
  if (Status returned = returnPages(memory_.get(), offset, bytes); !returned) {
    log(LogLevel::warn, "HEAP", -1, "device ", ordinal_, ": ", returned.error().message());
    return;
  }
  const UnitRange units = unitsOf(offset, bytes, kBackingUnit);
  backed_.clear(units.first, units.count);
}

void Heap::pin(std::size_t offset, std::size_t bytes) {
  const UnitRange granules = unitsOf(offset, bytes, kGranule);
  for (std::size_t i = 0; i < granules.count; ++i) pins_[granules.first + i].fetch_add(1);
}

void Heap::unpin(std::size_t offset, std::size_t bytes) {
  const UnitRange granules = unitsOf(offset, bytes, kGranule);
  for (std::size_t i = 0; i < granules.count; ++i) pins_[granules.first + i].fetch_sub(1);
  if (inLimbo_.load() != 0 && !inherited()) sweepLimbo();
}

bool Heap::pinned(Range range) const {
  const UnitRange granules = unitsOf(range.offset, range.bytes, kGranule);
  for (std::size_t i = 0; i < granules.count; ++i) {
    if (pins_[granules.first + i].load() != 0) return true;
  }
  return false;
}

HeapReport Heap::report() const {
  HeapReport report{bytes_, 0, 0, symmetric(), base_};
  if (inherited()) return report;
  const std::lock_guard lock(mutex_);
  report.used = used_;
  report.peak = peak_;
  return report;
}

}  // namespace symccl
