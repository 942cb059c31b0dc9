// 256-bit vectors: AVX2 and F16C.
#define SYMCCL_ISA_NAMESPACE avx2
#define SYMCCL_ISA_NAME "avx2"
#define SYMCCL_VECTOR_BYTES 32
#include "kernels/isa/make_table.hpp"

namespace symccl {
constinit const KernelTable kAvx2Table = avx2::TableMaker().table();
}  // namespace symccl
