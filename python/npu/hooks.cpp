// What ATen asks of a device beyond c10's guard.
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include <algorithm>
#include <cstring>

#include "generator.hpp"
#include "memory.hpp"
#include "pinned.hpp"
#include "registration.hpp"

namespace symccl::npu {
namespace {

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }

  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(npu::deviceCount()); }
  c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(currentDevice()); }
  void setCurrentDevice(c10::DeviceIndex ordinal) const override { setDevice(ordinal); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex ordinal) const override {
    const c10::DeviceIndex previous = getCurrentDevice();
    setDevice(ordinal);
    return previous;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex ordinal) const override {
    return ordinal < 0 ? getCurrentDevice() : exchangeDevice(ordinal);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex ordinal) const override {
    return defaultGenerator(ordinal);
  }
  at::Generator getNewGenerator(c10::DeviceIndex ordinal) const override { return newGenerator(ordinal); }

  at::Device getDeviceFromPtr(void* address) const override {
    const auto pool = Pool::find(address);
    TORCH_CHECK(pool != nullptr, "npu: ", address, " does not lie in the memory of any device");
    return {kNpu, static_cast<c10::DeviceIndex>(pool->ordinal())};
  }
  bool isPinnedPtr(const void* address) const override { return isPinned(address); }
  at::Allocator* getPinnedMemoryAllocator() const override { return pinnedAllocator(); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    c10::StorageImpl& impl = *storage.unsafeGetStorageImpl();
    c10::DataPtr memory = allocateOn(storage.device().index(), bytes);
    if (const std::size_t kept = std::min(bytes, impl.nbytes()); kept > 0) {
      std::memcpy(memory.get(), impl.data(), kept);
    }
    impl.set_data_ptr_noswap(std::move(memory));
    impl.set_nbytes(bytes);
  }
};

}  // namespace

void registerHooks() { at::RegisterPrivateUse1HooksInterface(new Hooks); }

}  // namespace symccl::npu
