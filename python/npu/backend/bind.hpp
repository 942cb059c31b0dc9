// The Python side of the backend, as part of symccl._npu.
#pragma once

#include <pybind11/pybind11.h>

namespace symccl::npu {

void bindBackend(pybind11::module_& module);

}  // namespace symccl::npu
