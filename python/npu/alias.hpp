// CPU storages and tensors over the memory of npu storages.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

namespace symccl::npu {

using StoragePtr = c10::intrusive_ptr<c10::StorageImpl>;

/// A CPU storage over the bytes of an npu storage: its twin. It keeps that alive, and takes memory from the CPU's
/// allocator when a kernel makes it larger.
StoragePtr makeTwin(const StoragePtr& npu);
/// Gives an npu storage the memory and the size that its twin has by now.
void followTwin(const StoragePtr& npu, c10::StorageImpl& twin);

/// A CPU tensor on `storage` with the sizes, strides and bits of `like`, for the time of a call: it counts no versions.
at::Tensor makeCpuTensor(StoragePtr storage, const at::Tensor& like);
/// An npu tensor on `storage`, likewise, but for users.
at::Tensor makeNpuTensor(StoragePtr storage, const at::Tensor& like);

inline StoragePtr pointerTo(const c10::Storage& storage) {
  return StoragePtr::reclaim_copy(storage.unsafeGetStorageImpl());
}
inline StoragePtr storageOf(const at::Tensor& tensor) {
  return pointerTo(tensor.unsafeGetTensorImpl()->unsafe_storage());
}

}  // namespace symccl::npu
