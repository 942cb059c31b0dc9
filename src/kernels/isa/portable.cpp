// 128-bit vectors that every processor of the architecture has.
#define SYMCCL_ISA_NAMESPACE portable
#define SYMCCL_ISA_NAME "portable"
#define SYMCCL_VECTOR_BYTES 16
#include "kernels/isa/make_table.hpp"

namespace symccl {
constinit const KernelTable kPortableTable = portable::TableMaker().table();
}  // namespace symccl
