// A twin has a storage of its own, labelled CPU: views that a CPU kernel makes take their device from the storage, so a
// tensor on the npu storage would not stay on the CPU.
#include "alias.hpp"

#include <c10/core/CPUAllocator.h>
#include <c10/core/TensorImpl.h>

#include "memory.hpp"

namespace symccl::npu {
namespace {

void releaseStorage(void* storage) { c10::raw::intrusive_ptr::decref(static_cast<c10::StorageImpl*>(storage)); }

c10::DataPtr borrowFrom(const StoragePtr& npu) {
  c10::raw::intrusive_ptr::incref(npu.get());
  return {npu->_mutable_data_ptr_no_checks().mutable_get(), npu.get(), &releaseStorage,
          c10::Device(c10::DeviceType::CPU)};
}

void copyGeometry(at::Tensor& to, const at::Tensor& from) {
  c10::TensorImpl& impl = *to.unsafeGetTensorImpl();
  const c10::TensorImpl& like = *from.unsafeGetTensorImpl();
  impl.set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (from.is_conj()) impl._set_conj(true);
  if (from.is_neg()) impl._set_neg(true);
  if (like.is_wrapped_number()) impl.set_wrapped_number(true);
}

}  // namespace

StoragePtr makeTwin(const StoragePtr& npu) {
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), npu->nbytes(), borrowFrom(npu),
                                               c10::GetCPUAllocator(), /*resizable=*/true);
}

void followTwin(const StoragePtr& npu, c10::StorageImpl& twin) {
  c10::DataPtr& data = twin._mutable_data_ptr_no_checks();
  if (data.get() != npu->_mutable_data_ptr_no_checks().get()) {
    moveToDevice(twin, npu->device().index());
    npu->set_data_ptr_noswap(std::move(data));
    data = borrowFrom(npu);
  }
  npu->set_nbytes(twin.nbytes());
}

at::Tensor makeCpuTensor(StoragePtr storage, const at::Tensor& like) {
  at::Tensor tensor =
      at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(std::move(storage)),
                                               c10::DispatchKeySet(c10::DispatchKey::CPU), like.dtype());
  copyGeometry(tensor, like);
  return tensor;
}

at::Tensor makeNpuTensor(StoragePtr storage, const at::Tensor& like) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), like.dtype());
  copyGeometry(tensor, like);
  return tensor;
}

at::Tensor cpuAlias(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_privateuseone()) return tensor;
  at::Tensor alias = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(makeTwin(storageOf(tensor))), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  copyGeometry(alias, tensor);
  return alias;
}

at::Tensor adopt(const at::Tensor& cpu, int ordinal) {
  if (!cpu.defined()) return cpu;
  const StoragePtr storage = storageOf(cpu);
  const auto pool = Pool::find(storage->data());
  if (pool != nullptr && pool->ordinal() != ordinal) {  // some other device's memory
    c10::DataPtr copy = allocateOn(ordinal, storage->nbytes());
    std::memcpy(copy.get(), storage->data(), storage->nbytes());
    storage->set_data_ptr_noswap(std::move(copy));
  }
  moveToDevice(*storage, ordinal);
  return makeNpuTensor(storage, cpu);
}

}  // namespace symccl::npu
