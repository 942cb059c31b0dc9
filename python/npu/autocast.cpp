// Autocast with PyTorch's own lists of operators.
#include <ATen/autocast_mode.h>

#include "registration.hpp"

// PyTorch's macros name things of this namespace, and a library `m`.
namespace at::autocast {

static void addCasts(torch::Library& m) {
#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FLOAT32_UNLESS_SAID(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define PROMOTED(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
  AT_FORALL_FP32(FLOAT32)
  AT_FORALL_FP32_SET_OPT_DTYPE(FLOAT32_UNLESS_SAID)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(PROMOTED)
#undef LOWER_PRECISION
#undef FLOAT32
#undef FLOAT32_UNLESS_SAID
#undef PROMOTED
}

}  // namespace at::autocast

namespace symccl::npu {

void addAutocast(torch::Library& library) { at::autocast::addCasts(library); }

}  // namespace symccl::npu
