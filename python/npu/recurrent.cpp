// Cells of LSTM and GRU: PyTorch takes fused ones for this device. The same composite for the device and for autograd
// is differentiable as it is.
#include <ATen/TensorOperators.h>
#include <ATen/core/TensorBody.h>
#include <ATen/ops/empty.h>

#include "registration.hpp"

namespace symccl::npu {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

bool given(const OptionalTensor& bias) { return bias && bias->defined(); }

// What the fused cells keep for their backward.
at::Tensor noWorkspace(const at::Tensor& like) { return at::empty({0}, like.options()); }

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstmCell(const at::Tensor& inputGates, const at::Tensor& hiddenGates,
                                                        const at::Tensor& cell, const OptionalTensor& inputBias,
                                                        const OptionalTensor& hiddenBias) {
  at::Tensor gates = inputGates + hiddenGates;
  if (given(inputBias)) gates = gates + *inputBias + *hiddenBias;
  const auto gate = gates.unsafe_chunk(4, 1);  // in, forget, cell, out
  const at::Tensor next = gate[1].sigmoid() * cell + gate[0].sigmoid() * gate[2].tanh();
  return {gate[3].sigmoid() * next.tanh(), next, noWorkspace(inputGates)};
}

std::tuple<at::Tensor, at::Tensor> gruCell(const at::Tensor& inputGates, const at::Tensor& hiddenGates,
                                           const at::Tensor& hidden, const OptionalTensor& inputBias,
                                           const OptionalTensor& hiddenBias) {
  const auto in = (given(inputBias) ? inputGates + *inputBias : inputGates).unsafe_chunk(3, 1);
  const auto of = (given(hiddenBias) ? hiddenGates + *hiddenBias : hiddenGates).unsafe_chunk(3, 1);
  const at::Tensor reset = (in[0] + of[0]).sigmoid(), update = (in[1] + of[1]).sigmoid();
  const at::Tensor next = (in[2] + reset * of[2]).tanh();
  return {(hidden - next) * update + next, noWorkspace(inputGates)};
}

void addCells(torch::Library& library) {
  library.impl("_thnn_fused_lstm_cell", TORCH_FN(lstmCell));
  library.impl("_thnn_fused_gru_cell", TORCH_FN(gruCell));
}

}  // namespace

void addRecurrent(torch::Library& library) { addCells(library); }
void addRecurrentAutograd(torch::Library& library) { addCells(library); }

}  // namespace symccl::npu
