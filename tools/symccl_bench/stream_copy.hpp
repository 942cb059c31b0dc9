// The copy that defines 'the wall'.
#pragma once

#include <cstddef>

namespace symccl::bench {

/// Copies `bytes` with streaming stores (an ordinary copy where the processor has none), walking through `streams`
/// equal parts of the range side by side. Both ranges begin at a page.
void streamCopy(std::byte* destination, const std::byte* source, std::size_t bytes, int streams);

}  // namespace symccl::bench
