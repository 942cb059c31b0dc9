// The pages behind a part of a heap: reserved so that writing cannot fail, given back, and put into page tables in
// bulk.
#pragma once

#include <cstddef>

#include "symccl/result.hpp"

namespace symccl {

/// Reserves the pages of a range of a memfd. Looks at what the machine and the cgroup have left before every slice,
/// because fallocate() past a cgroup's limit wakes the OOM killer instead of failing. Code::memory with asked, free and
/// the limit, Code::system with errno's text; the first part of the range may have pages then. Whole granules get huge
/// pages where the kernel can make them. `mapped`: where this process has offset 0.
Status reservePages(int descriptor, std::byte* mapped, std::size_t offset, std::size_t bytes);
/// Gives the pages of a range back; it reads as zero from then on, in every process.
Status returnPages(int descriptor, std::size_t offset, std::size_t bytes);

/// Makes each whole granule of the range one huge page: in a tenth of the time of 512 small ones, mapped by every
/// process in one step, and one entry of its TLB. Zero where there was nothing; what was there stays. False where the
/// kernel cannot (before Linux 6.1, or no memory in one piece): some granules may be huge then.
bool makeHuge(std::byte* mapped, std::size_t offset, std::size_t bytes);

/// Fills this process's page tables for pages that exist, for speed only: where the kernel cannot, the first accesses
/// do. A page that does not exist is made: only for ranges that are reserved.
void populateForWriting(std::byte* address, std::size_t bytes);
void populateForReading(std::byte* address, std::size_t bytes);

}  // namespace symccl
