#include "memory/mapped_heap.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/checks.hpp"
#include "memory/granules.hpp"
#include "memory/pages.hpp"
#include "memory/window.hpp"

namespace symccl {
namespace {

template <class... Parts>
Error corrupt(const Parts&... parts) {
  return Error(Code::corrupt, text("a peer's heap: ", parts...));
}

// Without these seals a peer could cut pages off and so kill this process by SIGBUS.
Status checkMemory(int descriptor, std::size_t bytes) {
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (seals < 0) return corrupt("the descriptor is no memfd: ", systemError("reading its seals").message());
  constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if ((seals & kNeeded) != kNeeded) return corrupt("it is not sealed against a change of its size (seals ", seals, ")");
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) return systemError("fstat of a peer's heap");
  if (static_cast<std::size_t>(status.st_size) != bytes) {
    return corrupt("it has ", status.st_size, " bytes, the peer said ", bytes);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<MappedHeap>> MappedHeap::map(FileDescriptor memory, const Uuid& id, int ordinal,
                                                    std::size_t bytes) {
  if (ordinal < 0 || ordinal >= kDevices) return corrupt("device ", ordinal, " is not between 0 and ", kDevices - 1);
  if (bytes == 0 || bytes % kGranule != 0) return corrupt(bytes, " bytes are no whole number of granules");
  if (Status valid = checkMemory(memory.get(), bytes); !valid) return valid.error();
  Result<std::byte*> base = mapAtWindow(memory.get(), ordinal, bytes);
  if (!base) return base.error().in("mapping a peer's heap");
  return std::unique_ptr<MappedHeap>(new MappedHeap(id, ordinal, *base, bytes));
}

MappedHeap::MappedHeap(const Uuid& id, int ordinal, std::byte* base, std::size_t bytes)
    : id_(id), ordinal_(ordinal), base_(base), bytes_(bytes), seen_(bytes / kGranule) {}

bool MappedHeap::symmetric() const { return base_ == windowAddress(ordinal_); }

void MappedHeap::populate(std::size_t offset, std::size_t bytes) {
  if (offset >= bytes_) return;
  const UnitRange range = unitsOf(offset, std::min(bytes, bytes_ - offset), kGranule);
  if (seen_.all(range.first, range.count)) return;
  const std::size_t end = range.first + range.count;
  for (std::size_t granule = range.first; granule < end;) {
    std::size_t next = granule;
    while (next < end && seen_.claim(next)) ++next;
    if (next > granule) populateForReading(base_ + granule * kGranule, (next - granule) * kGranule);
    granule = next + 1;
  }
}

}  // namespace symccl
