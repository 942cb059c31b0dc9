// The extension module symccl._npu.
#include <pybind11/stl.h>

#include <torch/csrc/utils/pybind.h>

#include "backend/bind.hpp"
#include "device.hpp"
#include "event.hpp"
#include "generator.hpp"
#include "memory.hpp"
#include "pluggable.hpp"
#include "registration.hpp"
#include "segment_dict.hpp"

namespace py = pybind11;

namespace symccl::npu {
namespace {

using NoGil = py::call_guard<py::gil_scoped_release>;

/// A Python object that may be let go of on any thread.
std::shared_ptr<py::function> holdAnywhere(py::function function) {
  return {new py::function(std::move(function)), [](py::function* held) {
            const py::gil_scoped_acquire gil;
            delete held;
          }};
}

// The function is told whether to wait, and returns the seconds since the end, or None.
void addPendingFunction(const c10::Stream& stream, py::function function) {
  addPending(stream, [held = holdAnywhere(std::move(function))](bool wait) -> std::optional<Clock::time_point> {
    const py::gil_scoped_acquire gil;
    try {
      const py::object since = (*held)(wait);
      if (since.is_none()) return std::nullopt;
      return Clock::now() -
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(since.cast<double>()));
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("symccl: pending work of an npu stream");
      return Clock::now();
    }
  });
}

double elapsedTime(std::uintptr_t from, std::uintptr_t to) {
  TORCH_CHECK_VALUE(from != 0 && to != 0, "Both events must be recorded before calculating elapsed time.");
  const auto time = [](std::uintptr_t event) { return reinterpret_cast<Event*>(event)->time(); };
  return std::chrono::duration<double, std::milli>(time(to) - time(from)).count();
}

void bindDevices(py::module_& module) {
  module.def("device_count", &deviceCount);
  module.def("current_device", &currentDevice);
  module.def("set_device", &setDevice, py::arg("device"));
  module.def("synchronize", [](int device) { synchronizeDevice(device); }, py::arg("device") = -1);
  module.def("default_generator", &defaultGenerator, py::arg("device") = -1);
  module.def("cpu_alias", &cpuAlias, py::arg("tensor"));
  module.def("adopt", &adopt, py::arg("tensor"), py::arg("device"));
}

void bindStreams(py::module_& module) {
  module.attr("least_priority") = kLeastPriority;
  module.attr("greatest_priority") = kGreatestPriority;
  module.def("stream_priority", &priorityOf, py::arg("stream"));
  module.def("default_stream", &defaultStream, py::arg("device") = -1);
  module.def("elapsed_time", &elapsedTime, py::arg("start_event_id"), py::arg("end_event_id"));
  module.def("add_pending", &addPendingFunction, py::arg("stream"), py::arg("poll"));
}

py::list memorySnapshot() {
  py::list segments;
  for (const auto& pool : poolsInUse()) {
    for (const SegmentReport& segment : pool->snapshot()) {
      segments.append(pytorch::segmentDict(segment, pool->ordinal(), pool->id()));
    }
  }
  return segments;
}

std::shared_ptr<PluggableAllocator> pluggableAllocator(std::uintptr_t allocate, std::uintptr_t free) {
  TORCH_CHECK_VALUE(allocate != 0 && free != 0, "npu: a pluggable allocator needs the addresses of two functions");
  return std::make_shared<PluggableAllocator>(reinterpret_cast<PluggableAllocator::Allocate>(allocate),
                                              reinterpret_cast<PluggableAllocator::Free>(free));
}

void bindMemory(py::module_& module) {
  py::module_::import("symccl._C");  // MemPool and PoolAllocator
  py::class_<PoolScope>(module, "PoolScope")
      .def(py::init<std::shared_ptr<pytorch::MemPool>>(), py::arg("pool"))
      .def("enter", &PoolScope::enter)
      .def("exit", &PoolScope::exit);
  module.def(
      "pool_allocator", [](int device) { return pytorch::PoolAllocator::ofDevice(resolveDevice(device)); },
      py::arg("device") = -1);
  module.def("empty_cache", &emptyCache, NoGil());
  module.def("memory_snapshot", &memorySnapshot);
  py::class_<PluggableAllocator, std::shared_ptr<PluggableAllocator>>(module, "PluggableAllocator")
      .def(py::init(&pluggableAllocator), py::arg("alloc_address"), py::arg("free_address"));
  module.def("change_current_allocator", &changeAllocator, py::arg("allocator"));
  module.def("allocator_backend", [] { return changedAllocator() ? "pluggable" : "native"; });
}

}  // namespace
}  // namespace symccl::npu

PYBIND11_MODULE(_npu, module) {
  using namespace symccl::npu;
  try {
    checkRegistrable();
  } catch (const c10::Error& error) {
    throw py::import_error(error.what_without_backtrace());
  }
  py::module_::import("torch.utils").attr("rename_privateuse1_backend")("npu");
  registerDevice();
  bindDevices(module);
  bindStreams(module);
  bindMemory(module);
  bindBackend(module);
}
