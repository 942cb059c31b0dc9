#include "call.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <iterator>

namespace symccl::pytorch {
namespace {

// Lazily conjugated and negated tensors are contiguous, but their memory does not hold their elements.
bool lies(const at::Tensor& tensor) { return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg(); }

at::Tensor emptyLike(const at::Tensor& tensor) {
  return at::empty(tensor.sizes(), tensor.options().requires_grad(false));
}

}  // namespace

void Buffers::absorb(Buffers other) {
  std::move(other.kept_.begin(), other.kept_.end(), std::back_inserter(kept_));
  std::move(other.copies_.begin(), other.copies_.end(), std::back_inserter(copies_));
}

const void* Buffers::read(const at::Tensor& tensor) {
  if (!lies(tensor)) return copyOf(tensor);
  if (keep_) kept_.push_back(tensor);
  return tensor.const_data_ptr();
}

void* Buffers::write(const at::Tensor& tensor) {
  if (!lies(tensor)) return writeAside(tensor);
  if (keep_) kept_.push_back(tensor);
  return tensor.mutable_data_ptr();
}

void* Buffers::update(const at::Tensor& tensor) {
  if (lies(tensor)) return write(tensor);
  void* data = writeAside(tensor);
  at::AutoDispatchBelowADInplaceOrView below;
  copies_.back().second.copy_(tensor);
  return data;
}

void* Buffers::writeAside(const at::Tensor& tensor) {
  copies_.emplace_back(tensor, emptyLike(tensor));
  return copies_.back().second.mutable_data_ptr();
}

const void* Buffers::copyOf(const at::Tensor& tensor) {
  at::AutoDispatchBelowADInplaceOrView below;
  kept_.push_back(emptyLike(tensor).copy_(tensor));
  return kept_.back().const_data_ptr();
}

void Buffers::copyBack() {
  at::AutoDispatchBelowADInplaceOrView below;
  for (auto& [tensor, memory] : copies_) tensor.copy_(memory);
}

Range spanOf(const at::Tensor& tensor) {
  const auto* begin = static_cast<const std::byte*>(tensor.const_data_ptr());
  if (tensor.numel() == 0) return {begin, 0};
  std::int64_t last = 0;
  for (std::int64_t dimension = 0; dimension < tensor.dim(); ++dimension) {
    last += (tensor.size(dimension) - 1) * tensor.stride(dimension);
  }
  return {begin, static_cast<std::size_t>(last + 1) * tensor.element_size()};
}

}  // namespace symccl::pytorch
