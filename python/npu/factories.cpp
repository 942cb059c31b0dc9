// Kernels that make new memory.
#include <ATen/EmptyTensor.h>
#include <ATen/core/TensorBody.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/DeviceGuard.h>

#include "memory.hpp"
#include "registration.hpp"

namespace symccl::npu {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

void checkLayout(std::optional<at::Layout> layout) {
  TORCH_CHECK_NOT_IMPLEMENTED(!layout || *layout == at::kStrided,
                              "the emulated npu device has dense tensors only, not ", *layout);
}

c10::Device deviceOf(std::optional<c10::Device> device) {
  return {kNpu, static_cast<c10::DeviceIndex>(resolveDevice(device ? device->index() : -1))};
}

at::Tensor empty(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout> layout,
                 std::optional<c10::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  checkLayout(layout);
  const c10::DeviceGuard guard(deviceOf(device));
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(sizes), npuAllocator(), kKeys, c10::dtype_or_default(type),
                                   format);
}

at::Tensor emptyStrided(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, std::optional<at::ScalarType> type,
                        std::optional<at::Layout> layout, std::optional<c10::Device> device, std::optional<bool>) {
  checkLayout(layout);
  const c10::DeviceGuard guard(deviceOf(device));
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                                           npuAllocator(), kKeys, c10::dtype_or_default(type));
}

// Zeros in memory: a tensor that only claims to be zero would lose that on its way to a CPU kernel.
at::Tensor zeroTensor(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout> layout,
                      std::optional<c10::Device> device, std::optional<bool> pin) {
  return empty(sizes, type, layout, device, pin, std::nullopt).zero_();
}

}  // namespace

void addFactories(torch::Library& library) {
  library.impl("empty.memory_format", TORCH_FN(empty));
  library.impl("empty_strided", TORCH_FN(emptyStrided));
  library.impl("_efficientzerotensor", TORCH_FN(zeroTensor));
}

}  // namespace symccl::npu
