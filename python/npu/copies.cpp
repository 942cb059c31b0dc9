// Copies between devices, and within one.
#include <ATen/core/TensorBody.h>

#include "device.hpp"
#include "registration.hpp"

namespace symccl::npu {
namespace {

// Of its own, not through _copy_from: the composite would come back here for views that are conjugate or negative.
at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool nonBlocking) {
  cpuAlias(to).copy_(cpuAlias(from), nonBlocking);
  return to;
}

at::Tensor copyFrom(const at::Tensor& from, const at::Tensor& to, bool nonBlocking) {
  cpuAlias(to).copy_(cpuAlias(from), nonBlocking);
  return to;
}

at::Tensor copyFromAndResize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copyFrom(from, to, false);
}

// Kernels have ended when they return, and a collective's Work holds its tensors.
void recordStream(at::Tensor&, c10::Stream) {}

}  // namespace

void addCopies(torch::Library& library) {
  library.impl("copy_", TORCH_FN(copy));
  library.impl("_copy_from", TORCH_FN(copyFrom));
  library.impl("_copy_from_and_resize", TORCH_FN(copyFromAndResize));
  library.impl("record_stream", TORCH_FN(recordStream));
}

}  // namespace symccl::npu
