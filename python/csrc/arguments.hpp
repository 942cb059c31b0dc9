// From tensors and c10d's options to what an operation takes. Everything here throws ValueError or TypeError with a
// sentence that says what was wrong and what is accepted.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "symccl/types.hpp"

namespace symccl::pytorch {

/// A reduction as an operation takes it.
struct Reduction {
  ReduceOp op;
  double factor;  ///< premulSum's
};

/// "torch.float32".
std::string nameOf(at::ScalarType type);

/// The element type under which a tensor is moved. Types that SymCCL does not know are moved as bytes.
DataType dataTypeOf(at::ScalarType type);

/// The number of `dataTypeOf` elements in the tensor.
std::size_t countOf(const at::Tensor& tensor);

/// TypeError unless `op` is defined on `type`.
Reduction reductionOf(const c10d::ReduceOp& op, at::ScalarType type, const char* call);

/// Makes tensors of a device acceptable, because their data pointers are addresses of the host's memory.
void addHostDevice(c10::DeviceType type);
/// On the CPU, or a device that was added.
bool isHostMemory(const at::Tensor& tensor);

/// Defined, dense, not quantized, in host memory.
void checkTensor(const at::Tensor& tensor, const char* call);
/// checkTensor for one that will be written: no two elements may share memory.
void checkOutput(const at::Tensor& tensor, const char* call);
/// The only tensor of a list.
const at::Tensor& onlyOne(const std::vector<at::Tensor>& tensors, const char* call);
/// The only list of a list of lists.
const std::vector<at::Tensor>& onlyOne(const std::vector<std::vector<at::Tensor>>& lists, const char* call);
/// One tensor for each of `size` ranks.
void checkLength(std::size_t length, int size, const char* call, const char* what);
/// Coalesced forms: as many outputs as inputs.
void checkPairs(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs, const char* call);
void checkSameType(const at::Tensor& tensor, const at::Tensor& other, const char* call);
void checkSameCount(const at::Tensor& tensor, std::int64_t count, const char* call, const char* what);
void checkRoot(std::int64_t root, int size, const char* call);

/// Bytes of each rank's part of `tensor`, cut along dimension 0 by `splits` (empty: evenly).
std::vector<std::size_t> partsOf(const at::Tensor& tensor, const std::vector<std::int64_t>& splits, int size,
                                 const char* call, const char* what);

}  // namespace symccl::pytorch
