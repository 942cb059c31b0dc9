#include "call.hpp"

#include "memory.hpp"

namespace symccl::npu {

void Call::mixed(c10::Device one, c10::Device other) const {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", one, " and ",
              other, "! (when checking the arguments of ", name_, ")");
}

void Call::see(c10::Device device) {
  if (device_ >= 0 && device_ != device.index()) {
    mixed(c10::Device(kNpu, static_cast<c10::DeviceIndex>(device_)), device);
  }
  device_ = device.index();
}

at::Tensor Call::toCpu(const at::Tensor& tensor, Role role) {
  if (!tensor.defined()) return tensor;
  if (!tensor.is_privateuseone()) {
    cpuTensor_ = cpuTensor_ || (role != Role::index && tensor.dim() > 0);
    return tensor;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.has_storage() && !tensor.is_quantized(), name_,
                              ": the emulated npu device has dense tensors only");
  see(tensor.device());
  at::Tensor cpu = makeCpuTensor(twinOf(tensor.unsafeGetTensorImpl()->unsafe_storage()), tensor);
  arguments_.push_back({tensor, cpu, role});
  return cpu;
}

c10::Storage Call::toCpu(const c10::Storage& storage) {
  if (storage.device().type() != kNpu) return storage;
  see(storage.device());
  return c10::Storage(twinOf(storage));
}

int Call::place(std::optional<c10::Device> wanted) {
  if (cpuTensor_ && device_ >= 0) {
    mixed(c10::Device(kNpu, static_cast<c10::DeviceIndex>(device_)), c10::Device(c10::DeviceType::CPU));
  }
  if (device_ < 0) device_ = resolveDevice(wanted ? wanted->index() : -1);
  return device_;
}

const StoragePtr& Call::twinOf(const c10::Storage& storage) {
  for (const Twin& twin : twins_) {
    if (twin.npu.get() == storage.unsafeGetStorageImpl()) return twin.cpu;
  }
  StoragePtr npu = pointerTo(storage);
  StoragePtr cpu = makeTwin(npu);
  twins_.push_back({std::move(npu), std::move(cpu)});
  return twins_.back().cpu;
}

StoragePtr Call::npuStorage(const StoragePtr& cpu) {
  for (const Twin& twin : twins_) {
    if (twin.cpu == cpu) return twin.npu;
  }
  if (cpu->device().type() != kNpu) moveToDevice(*cpu, device_);
  return cpu;
}

void Call::finish() {
  for (const Twin& twin : twins_) followTwin(twin.npu, *twin.cpu);
  for (const Argument& argument : arguments_) {
    if (argument.role != Role::written) continue;
    c10::TensorImpl& npu = *argument.npu.unsafeGetTensorImpl();
    const c10::TensorImpl& cpu = *argument.cpu.unsafeGetTensorImpl();
    StoragePtr storage = npuStorage(storageOf(argument.cpu));
    if (storage != storageOf(argument.npu)) npu.set_storage_keep_dtype(c10::Storage(std::move(storage)));
    if (npu.storage_offset() != cpu.storage_offset() || npu.sizes() != cpu.sizes() || npu.strides() != cpu.strides()) {
      npu.set_sizes_and_strides(cpu.sizes(), cpu.strides(), cpu.storage_offset());
    }
  }
}

at::Tensor Call::toNpu(const at::Tensor& result) {
  if (!result.defined() || result.is_privateuseone()) return result;
  for (const Argument& argument : arguments_) {
    if (argument.cpu.is_same(result)) return argument.npu;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(result.has_storage() && !result.is_quantized(), name_,
                              ": the result is not a dense tensor, and the emulated npu device has no others");
  return makeNpuTensor(npuStorage(storageOf(result)), result);
}

}  // namespace symccl::npu
