// The five operators of SyncBatchNorm, which PyTorch has for GPUs only. Statistics are float32 for half-precision
// inputs.
#include <ATen/TensorOperators.h>
#include <ATen/core/TensorBody.h>
#include <ATen/ops/var_mean.h>

#include "registration.hpp"

namespace symccl::npu {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

bool given(const OptionalTensor& tensor) { return tensor && tensor->defined(); }

at::ScalarType wideType(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16 ? at::kFloat : tensor.scalar_type();
}

at::Tensor wide(const at::Tensor& tensor) { return tensor.to(wideType(tensor)); }

/// Every dimension but the channels'.
std::vector<std::int64_t> reduced(const at::Tensor& input) {
  std::vector<std::int64_t> dims{0};
  for (std::int64_t i = 2; i < input.dim(); ++i) dims.push_back(i);
  return dims;
}

/// One value a channel, in a shape that goes with `input`.
at::Tensor perChannel(const at::Tensor& values, const at::Tensor& input) {
  std::vector<std::int64_t> shape(input.dim(), 1);
  shape[1] = values.numel();
  return values.to(wideType(input)).view(shape);
}

std::tuple<at::Tensor, at::Tensor> stats(const at::Tensor& input, double epsilon) {
  const auto [variance, mean] = at::var_mean(wide(input), reduced(input), /*unbiased=*/false);
  return {mean, (variance + epsilon).rsqrt()};
}

// Deviations of parts are joined as in Chan, Golub, LeVeque 1979: within each part, and of its mean from the whole's.
std::tuple<at::Tensor, at::Tensor> gatherStats(const at::Tensor& /*input*/, const at::Tensor& means,
                                               const at::Tensor& inverseDeviations, const OptionalTensor& runningMean,
                                               const OptionalTensor& runningVariance, double momentum, double epsilon,
                                               const at::Tensor& counts) {
  const at::Tensor weights = counts.to(means.scalar_type()).view({-1, 1});
  const at::Tensor total = weights.sum();
  const at::Tensor mean = (means * weights).sum(0) / total;
  const at::Tensor within = inverseDeviations.pow(-2) - epsilon;
  const at::Tensor squares = ((within + (means - mean).square()) * weights).sum(0);
  if (given(runningMean)) runningMean->mul_(1 - momentum).add_(mean.to(runningMean->scalar_type()), momentum);
  if (given(runningVariance)) {
    const at::Tensor unbiased = squares / (total - 1);
    runningVariance->mul_(1 - momentum).add_(unbiased.to(runningVariance->scalar_type()), momentum);
  }
  return {mean, (squares / total + epsilon).rsqrt()};
}

at::Tensor normalize(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                     const at::Tensor& mean, const at::Tensor& inverseDeviation, double) {
  at::Tensor result = (wide(input) - perChannel(mean, input)) * perChannel(inverseDeviation, input);
  if (given(weight)) result = result * perChannel(*weight, input);
  if (given(bias)) result = result + perChannel(*bias, input);
  return result.to(input.scalar_type());
}

at::Tensor& normalizeOut(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                         const at::Tensor& mean, const at::Tensor& inverseDeviation, double epsilon, at::Tensor& out) {
  return out.resize_(input.sizes()).copy_(normalize(input, weight, bias, mean, inverseDeviation, epsilon));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backwardReduce(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean, const at::Tensor& inverseDeviation,
    const OptionalTensor& weight, bool ofInput, bool ofWeight, bool ofBias) {
  const at::Tensor slope = wide(gradient);
  const at::Tensor sum = slope.sum(reduced(input));
  const at::Tensor product = (slope * (wide(input) - perChannel(mean, input))).sum(reduced(input));
  const auto type = given(weight) ? weight->scalar_type() : sum.scalar_type();
  return {ofInput ? sum : at::Tensor(), ofInput ? product : at::Tensor(),
          ofWeight ? (product * inverseDeviation).to(type) : at::Tensor(), ofBias ? sum.to(type) : at::Tensor()};
}

at::Tensor backward(const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& mean,
                    const at::Tensor& inverseDeviation, const OptionalTensor& weight, const at::Tensor& sum,
                    const at::Tensor& product, const at::Tensor& counts) {
  const at::Tensor total = counts.sum().to(mean.scalar_type());
  const at::Tensor factor = given(weight) ? inverseDeviation * *weight : inverseDeviation;
  const at::Tensor tilt = product / total * inverseDeviation.square();
  const at::Tensor result = (wide(gradient) - perChannel(sum / total, input) -
                             (wide(input) - perChannel(mean, input)) * perChannel(tilt, input)) *
                            perChannel(factor, input);
  return result.to(input.scalar_type());
}

}  // namespace

void addSyncBatchNorm(torch::Library& library) {
  library.impl("batch_norm_stats", TORCH_FN(stats));
  library.impl("batch_norm_gather_stats_with_counts", TORCH_FN(gatherStats));
  library.impl("batch_norm_elemt", TORCH_FN(normalize));
  library.impl("batch_norm_elemt.out", TORCH_FN(normalizeOut));
  library.impl("batch_norm_backward_reduce", TORCH_FN(backwardReduce));
  library.impl("batch_norm_backward_elemt", TORCH_FN(backward));
}

}  // namespace symccl::npu
