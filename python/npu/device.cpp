// Devices: how many, and which is the current thread's.
#include "device.hpp"

#include <c10/util/Exception.h>

#include "errors.hpp"

namespace symccl::npu {
namespace {

thread_local int t_device = 0;

}  // namespace

int deviceCount() {
  static const int count = pytorch::valueOf(emulatedDevices());
  return count;
}

int currentDevice() { return t_device; }

void setDevice(int ordinal) {
  TORCH_CHECK(ordinal >= 0 && ordinal < deviceCount(), "npu: there is no device ", ordinal, " (accepted: 0 to ",
              deviceCount() - 1, "; the variable SYMCCL_NPU_DEVICES says how many there are)");
  t_device = ordinal;
}

int resolveDevice(int ordinal) {
  if (ordinal == -1) return t_device;
  TORCH_CHECK(ordinal >= 0 && ordinal < deviceCount(), "npu: there is no device ", ordinal, " (accepted: 0 to ",
              deviceCount() - 1, ", or -1 for the current one)");
  return ordinal;
}

}  // namespace symccl::npu
