// The extension module symccl._C.
#include <pybind11/chrono.h>
#include <pybind11/stl.h>

#include <torch/csrc/utils/pybind.h>

#include "backend.hpp"
#include "callback_threads.hpp"
#include "errors.hpp"
#include "mem_pool.hpp"
#include "segment_dict.hpp"

namespace py = pybind11;

namespace symccl::pytorch {
namespace {

using NoGil = py::call_guard<py::gil_scoped_release>;

c10::intrusive_ptr<GroupOptions> optionsFrom(const c10d::DistributedBackendOptions& given, const py::object& chosen) {
  auto options = c10::make_intrusive<GroupOptions>();
  if (!chosen.is_none()) {
    if (!py::isinstance<GroupOptions>(chosen)) {
      throw py::type_error("symccl: pg_options must be symccl.Options, got " +
                           py::str(py::type::of(chosen)).cast<std::string>());
    }
    options = chosen.cast<c10::intrusive_ptr<GroupOptions>>()->copy();
  }
  options->take(given);
  return options;
}

c10::intrusive_ptr<ProcessGroupSymCCL> create(const c10d::DistributedBackendOptions& given, const py::object& chosen) {
  auto options = optionsFrom(given, chosen);
  py::gil_scoped_release noGil;
  return c10::make_intrusive<ProcessGroupSymCCL>(given.store, given.group_rank, given.group_size, std::move(options));
}

std::shared_ptr<MemPool> makePool(const py::object& allocator, bool, bool) {
  if (allocator.is_none()) return std::make_shared<MemPool>(PoolAllocator::ofDevice(-1));
  if (!py::isinstance<PoolAllocator>(allocator)) {
    throw py::type_error("symccl: the allocator of a MemPool must be mem_allocator of a symccl backend, got " +
                         py::str(py::type::of(allocator)).cast<std::string>());
  }
  return std::make_shared<MemPool>(allocator.cast<std::shared_ptr<PoolAllocator>>());
}

py::list snapshot(const MemPool& pool, bool) {
  py::list segments;
  for (const SegmentReport& segment : pool.snapshot()) {
    segments.append(segmentDict(segment, pool.allocator()->ordinal(), pool.id()));
  }
  return segments;
}

py::dict countersDict(const OperationCounters& counters) {
  py::dict result;
  result["calls"] = counters.calls;
  result["bytes"] = counters.bytes;
  result["inlined"] = counters.inlined;
  result["eager"] = counters.eager;
  result["zero_copy"] = counters.zeroCopy;
  result["staged"] = counters.staged;
  result["loaded_bytes"] = counters.loadedBytes;
  result["stored_bytes"] = counters.storedBytes;
  return result;
}

py::dict heapDict(int device) {
  const HeapReport heap = valueOf(heapReport(device));
  py::dict result;
  result["bytes"] = heap.bytes;
  result["used"] = heap.used;
  result["peak"] = heap.peak;
  result["symmetric"] = heap.symmetric;
  return result;
}

py::dict stats(ProcessGroupSymCCL& group) {
  CommunicatorReport report;
  {
    py::gil_scoped_release noGil;
    report = group.communicator()->report();
  }
  py::dict operations;
  for (const auto& [kind, counters] : report.operations) operations[py::str(kind)] = countersDict(counters);
  py::dict result;
  result["name"] = report.name;
  result["rank"] = report.rank;
  result["size"] = report.size;
  result["sequence"] = report.sequence;
  result["operations"] = operations;
  result["staged_send_private"] = report.stagedSendPrivate;
  result["staged_recv_private"] = report.stagedRecvPrivate;
  result["registered_segments"] = report.registeredSegments;
  result["registered_bytes"] = report.registeredBytes;
  result["symmetric"] = report.symmetric;
  result["heap"] = heapDict(group.options()->device);
  return result;
}

void bindMemory(py::module_& module) {
  py::class_<PoolAllocator, std::shared_ptr<PoolAllocator>>(
      module, "PoolAllocator", "`backend.mem_allocator`: names the heap that a MemPool takes its memory from.")
      .def_property_readonly("device", &PoolAllocator::ordinal);
  py::class_<MemPool, std::shared_ptr<MemPool>>(
      module, "MemPool",
      "A pool of memory that every rank of this host can reach: tensors made inside of use_mem_pool(pool) lie in it.")
      .def(py::init(&makePool), py::arg("allocator") = py::none(), py::arg("use_on_oom") = false,
           py::arg("no_split") = false)
      .def_property_readonly("id", [](const MemPool& pool) { return py::make_tuple(0, pool.id()); })
      .def_property_readonly("allocator", &MemPool::allocator)
      .def("use_count", &MemPool::useCount, "One, and one more for each use_mem_pool context that is open.")
      .def("snapshot", &snapshot, py::arg("include_traces") = true,
           "The segments and their blocks, with the keys of torch.cuda.MemPool.snapshot(). Sizes are bytes.")
      .def(
          "trim", [](const MemPool& pool) { return pool.pool()->trim(); }, NoGil(),
          "Gives segments without a block in use back to the heap; returns their bytes.");
  py::class_<MemPoolUse>(module, "_MemPoolUse")
      .def(py::init<std::shared_ptr<MemPool>>())
      .def("enter", &MemPoolUse::enter)
      .def("exit", &MemPoolUse::exit);
}

void bindBackend(py::module_& module) {
  py::class_<GroupOptions, c10d::Backend::Options, c10::intrusive_ptr<GroupOptions>>(
      module, "Options",
      "Options of a group, for pg_options. device: ordinal of the heap to use; -1 is this process's default. "
      "is_high_priority_stream: large operations of other groups pause while one of this group runs.")
      .def(py::init<std::chrono::milliseconds, int>(), py::arg("timeout") = kBackendDefaultTimeout,
           py::arg("device") = -1)
      .def_readwrite("device", &GroupOptions::device)
      .def_readwrite("is_high_priority_stream", &GroupOptions::highPriority)
      .def("__copy__", &GroupOptions::copy)
      .def("__deepcopy__", [](const GroupOptions& self, const py::dict&) { return self.copy(); });

  using Group = ProcessGroupSymCCL;
  py::class_<Group, c10d::Backend, c10::intrusive_ptr<Group>>(
      module, "ProcessGroupSymCCL", "The backend of a group: group._get_backend(torch.device('cpu')).")
      .def("register_mem_pool", &Group::registerMemPool, py::arg("pool"), py::arg("symm") = false, NoGil(),
           "Marks the pool's segments, present and future, as symmetric memory of this group. symm must be True.")
      .def("deregister_mem_pool", &Group::deregisterMemPool, py::arg("pool"), NoGil(),
           "Ends what register_mem_pool began.")
      .def("verify_mem_pool", &Group::verifyPool, py::arg("pool"), NoGil())
      .def("is_symmetric", &Group::isSymmetric, py::arg("tensor"), NoGil())
      .def("stats", &stats)
      .def(
          "pids", [](Group& group) { return group.communicator()->pids(); }, NoGil())
      .def_property_readonly("options", &Group::options)
      .def("get_error", &Group::getError, NoGil())
      .def("_set_default_timeout", &Group::setTimeout, py::arg("timeout"), NoGil());
}

}  // namespace
}  // namespace symccl::pytorch

PYBIND11_MODULE(_C, module) {
  using namespace symccl::pytorch;
  py::module_::import("torch._C._distributed_c10d");
  module.attr("__version__") = SYMCCL_VERSION;
  bindMemory(module);
  bindBackend(module);
  module.def("create", &create);
  module.def(
      "_end",
      [] {
        ProcessGroupSymCCL::shutdownAll();
        endCallbackThreads();
      },
      NoGil());
}
