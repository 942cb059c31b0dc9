// 512-bit vectors: AVX-512 F, BW, VL and DQ.
#define SYMCCL_ISA_NAMESPACE avx512
#define SYMCCL_ISA_NAME "avx512"
#define SYMCCL_VECTOR_BYTES 64
#include "kernels/isa/make_table.hpp"

namespace symccl {
constinit const KernelTable kAvx512Table = avx512::TableMaker().table();
}  // namespace symccl
