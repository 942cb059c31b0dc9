// Dropout: PyTorch takes native_dropout for this device, whose CPU kernel draws from the CPU's generator.
#include <ATen/core/TensorBody.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>

#include "registration.hpp"

namespace symccl::npu {
namespace {

std::tuple<at::Tensor, at::Tensor> nativeDropout(const at::Tensor& input, double p, std::optional<bool> train) {
  const auto maskOptions = input.options().dtype(at::kBool);
  if (input.numel() == 0 || !train.value_or(true)) return {input.clone(), at::ones_like(input, maskOptions)};
  at::Tensor mask = at::empty_like(input, maskOptions).bernoulli_(1 - p);
  return {at::mul(input, mask).mul_(p == 1 ? 0. : 1. / (1. - p)), mask};
}

}  // namespace

void addRandom(torch::Library& library) { library.impl("native_dropout", TORCH_FN(nativeDropout)); }

}  // namespace symccl::npu
