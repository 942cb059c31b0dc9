// What c10 asks of a device: current device, streams, events.
#include "registration.hpp"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "event.hpp"

namespace symccl::npu {
namespace {

c10::Device deviceOf(int ordinal) { return {kNpu, static_cast<c10::DeviceIndex>(ordinal)}; }

class GuardImpl final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kNpu; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device previous = getDevice();
    setDevice(device);
    return previous;
  }
  c10::Device getDevice() const override { return deviceOf(currentDevice()); }
  void setDevice(c10::Device device) const override {
    if (device.index() >= 0 && device.index() != currentDevice()) npu::setDevice(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0 && device.index() < deviceCount()) setDevice(device);
  }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(npu::deviceCount()); }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }

  c10::Stream getStream(c10::Device device) const override { return currentStream(device.index()); }
  c10::Stream getDefaultStream(c10::Device device) const override { return defaultStream(device.index()); }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return newStream(device.index(), priority);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool highPriority) const override {
    return newStream(device.index(), highPriority ? kGreatestPriority : kLeastPriority);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream previous = currentStream(stream.device_index());
    setCurrentStream(stream);
    return previous;
  }
  void* getStreamNativeHandle(c10::Stream stream) const override { return reinterpret_cast<void*>(stream.id()); }
  bool queryStream(const c10::Stream& stream) const override { return npu::queryStream(stream); }
  void synchronizeStream(const c10::Stream& stream) const override { npu::synchronizeStream(stream); }
  void synchronizeDevice(c10::DeviceIndex ordinal) const override { npu::synchronizeDevice(ordinal); }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex ordinal, c10::EventFlag) const override {
    TORCH_CHECK(ordinal == -1 || ordinal == stream.device_index(), "npu: an event of device ", int{ordinal},
                " cannot be recorded by a stream of device ", int{stream.device_index()});
    if (*event == nullptr) *event = new Event;
    eventOf(*event).record(stream);
  }
  // Kernels of the waiting stream run at once, on this thread: it has to wait here.
  void block(void* event, const c10::Stream&) const override { eventOf(event).synchronize(); }
  bool queryEvent(void* event) const override { return eventOf(event).query(); }
  void synchronizeEvent(void* event) const override { eventOf(event).synchronize(); }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  double elapsedTime(void* from, void* to, c10::DeviceIndex) const override {
    return std::chrono::duration<double, std::milli>(eventOf(to).time() - eventOf(from).time()).count();
  }

 private:
  static Event& eventOf(void* event) { return *static_cast<Event*>(event); }
};

}  // namespace

void registerGuard() { c10::impl::registerDeviceGuard(kNpu, new GuardImpl); }

}  // namespace symccl::npu
