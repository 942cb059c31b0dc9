#include "registration.hpp"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "device.hpp"

namespace symccl::npu {
namespace {

/// Kernels stay registered as long as their library lives: for ever.
torch::Library& library(const char* nameSpace, c10::DispatchKey key) {
  return *new torch::Library(torch::Library::IMPL, nameSpace, key, __FILE__, __LINE__);
}

}  // namespace

void checkRegistrable() {
  const std::string name = c10::get_privateuse1_backend();
  TORCH_CHECK(name == "privateuseone", "symccl.npu: PyTorch's PrivateUse1 is already the device '", name,
              "' in this process; the emulated device npu needs a process in which nothing else has claimed it",
              name == "npu" ? " (is it a real torch_npu?)" : "");
  TORCH_CHECK(!c10::impl::hasDeviceGuardImpl(kNpu) && !at::isPrivateUse1HooksRegistered(),
              "symccl.npu: another library has registered a device as PyTorch's PrivateUse1 in this process; the "
              "emulated device npu needs a process in which nothing else has claimed it");
  deviceCount();
}

void registerDevice() {
  registerGuard();
  registerHooks();
  registerAllocator();
  registerTimer();

  torch::Library& kernels = library("aten", c10::DispatchKey::PrivateUse1);
  addFactories(kernels);
  addCopies(kernels);
  addRandom(kernels);
  addConvolution(kernels);
  addRecurrent(kernels);
  addSyncBatchNorm(kernels);
  addFallback(kernels);
  addRecurrentAutograd(library("aten", c10::DispatchKey::AutogradPrivateUse1));
  addAutocast(library("aten", c10::DispatchKey::AutocastPrivateUse1));
  library("_", c10::DispatchKey::AutocastPrivateUse1).fallback(torch::CppFunction::makeFallthrough());
}

}  // namespace symccl::npu
