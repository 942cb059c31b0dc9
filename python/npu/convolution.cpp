// Convolutions: PyTorch has a place of its own for this device's; here they are the CPU's over the same memory.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/TensorBody.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>

#include "memory.hpp"
#include "registration.hpp"

namespace symccl::npu {
namespace {

using Ints = c10::SymIntArrayRef;

int placeOf(const at::Tensor& input, const at::Tensor& weight) {
  TORCH_CHECK(input.device() == weight.device(),
              "Expected all tensors to be on the same device, but found at least two ", "devices, ", input.device(),
              " and ", weight.device(), "! (when checking the arguments of aten::convolution)");
  return input.device().index();
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       Ints stride, Ints padding, Ints dilation, bool transposed, Ints outputPadding,
                       c10::SymInt groups) {
  const int device = placeOf(input, weight);
  const RoutedToDevice memory(device);
  const at::AutoDispatchBelowADInplaceOrView below;
  const auto cpuBias = bias ? std::optional(cpuAlias(*bias)) : std::nullopt;
  return adopt(at::convolution_symint(cpuAlias(input), cpuAlias(weight), cpuBias, stride, padding, dilation, transposed,
                                      outputPadding, groups),
               device);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolutionBackward(const at::Tensor& gradient, const at::Tensor& input,
                                                                   const at::Tensor& weight, Ints stride, Ints padding,
                                                                   Ints dilation, bool transposed, Ints outputPadding,
                                                                   c10::SymInt groups, std::array<bool, 3> mask) {
  const int device = placeOf(input, weight);
  const RoutedToDevice memory(device);
  const at::AutoDispatchBelowADInplaceOrView below;
  const at::Tensor cpuWeight = cpuAlias(weight);
  const std::vector<c10::SymInt> biasSize{transposed ? cpuWeight.sym_size(1) * groups : cpuWeight.sym_size(0)};
  const auto [ofInput, ofWeight, ofBias] =
      at::convolution_backward_symint(cpuAlias(gradient), cpuAlias(input), cpuWeight, Ints(biasSize), stride, padding,
                                      dilation, transposed, outputPadding, groups, mask);
  return {adopt(ofInput, device), adopt(ofWeight, device), adopt(ofBias, device)};
}

}  // namespace

void addConvolution(torch::Library& library) {
  library.impl("convolution_overrideable", TORCH_FN(convolution));
  library.impl("convolution_backward_overrideable", TORCH_FN(convolutionBackward));
}

}  // namespace symccl::npu
