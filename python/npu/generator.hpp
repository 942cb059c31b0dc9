// Random numbers: each device has generators of its own, which are the CPU's inside.
#pragma once

#include <ATen/core/Generator.h>

#include "device.hpp"

namespace symccl::npu {

const at::Generator& defaultGenerator(int ordinal);
at::Generator newGenerator(int ordinal);
/// The CPU generator inside an npu generator; another device's generator comes back as it is.
at::Generator cpuGeneratorOf(const at::Generator& generator);

}  // namespace symccl::npu
