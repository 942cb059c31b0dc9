// Streams: numbers that carry their priority.
#include <algorithm>
#include <array>
#include <atomic>

#include "device.hpp"

namespace symccl::npu {
namespace {

constexpr int kPriorities = kLeastPriority - kGreatestPriority + 1;
constexpr int kMostDevices = 64;

thread_local std::array<c10::StreamId, kMostDevices> t_current{};

c10::Stream makeStream(int ordinal, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNpu, static_cast<c10::DeviceIndex>(ordinal)), id);
}

}  // namespace

// The default stream is 0: of the least priority.
c10::Stream newStream(int ordinal, int priority) {
  static std::atomic<c10::StreamId> next{1};
  const int level = kLeastPriority - std::clamp(priority, kGreatestPriority, kLeastPriority);
  return makeStream(resolveDevice(ordinal), next++ * kPriorities + level);
}

c10::Stream defaultStream(int ordinal) { return makeStream(resolveDevice(ordinal), 0); }

c10::Stream currentStream(int ordinal) {
  const int device = resolveDevice(ordinal);
  return makeStream(device, t_current[device]);
}

void setCurrentStream(const c10::Stream& stream) { t_current[resolveDevice(stream.device_index())] = stream.id(); }

int priorityOf(const c10::Stream& stream) { return kLeastPriority - static_cast<int>(stream.id() % kPriorities); }

}  // namespace symccl::npu
