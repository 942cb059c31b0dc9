// The heaps of these tests are small, so that they can be exhausted.
#include <cstdlib>

namespace {

[[maybe_unused]] const int small = ::setenv("SYMCCL_HEAP_SIZE", "256M", 1);

}  // namespace
