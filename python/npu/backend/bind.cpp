#include "bind.hpp"

#include <pybind11/chrono.h>
#include <pybind11/stl.h>

#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "arguments.hpp"
#include "process_group.hpp"

namespace py = pybind11;

namespace symccl::npu {
namespace {

using NoGil = py::call_guard<py::gil_scoped_release>;
using Group = ProcessGroupHCCL;
using Store = c10::intrusive_ptr<c10d::Store>;

[[noreturn]] void refuseValue(const std::string& key, const py::handle& value) {
  const auto type = valueTypeOf(key);
  const char* accepted = !type ? "int or string" : *type == ValueType::number ? "int" : "string";
  throw py::type_error("Value type of " + key + " should be " + accepted + ", got " +
                       py::str(py::type::of(value).attr("__name__")).cast<std::string>());
}

HcclConfig configFrom(const py::dict& values) {
  HcclConfig config;
  for (const auto& [name, value] : values) {
    const auto key = name.cast<std::string>();
    if (!valueTypeOf(key)) {
      const std::string text = "hccl_config: '" + key + "' is unknown and has no effect (known: " + knownKeys() + ")";
      if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) != 0) throw py::error_already_set();
    }
    if (py::isinstance<py::str>(value)) {
      config[key] = value.cast<std::string>();
    } else if (py::isinstance<py::int_>(value)) {
      config[key] = value.cast<std::int64_t>();
    } else {
      refuseValue(key, value);
    }
  }
  return config;
}

void bindOptions(const py::object& group) {
  py::class_<HcclOptions, pytorch::GroupOptions, c10::intrusive_ptr<HcclOptions>>(group, "Options",
                                                                                  "Options of a group, for pg_options.")
      .def(py::init<>())
      .def_readwrite("op_timeout", &HcclOptions::opTimeout)
      .def_readwrite("group_id", &HcclOptions::groupId)
      .def_property(
          "hccl_config", [](const HcclOptions& options) { return options.config; },
          [](HcclOptions& options, const py::dict& values) { options.config = configFrom(values); });
}

// torch_npu's factory takes no notice of options of another backend.
c10::intrusive_ptr<Group> create(const c10d::DistributedBackendOptions& given, const py::object& chosen) {
  auto options = c10::make_intrusive<HcclOptions>();
  if (py::isinstance<HcclOptions>(chosen)) {
    options = c10::make_intrusive<HcclOptions>(*chosen.cast<c10::intrusive_ptr<HcclOptions>>());
  }
  options->take(given);
  const char* high = std::getenv("TORCH_HCCL_HIGH_PRIORITY");
  if (high != nullptr && std::string_view(high) == "1") options->highPriority = true;
  py::gil_scoped_release noGil;
  return c10::make_intrusive<Group>(given.store, given.group_rank, given.group_size, std::move(options));
}

// Groups that c10d does not name: rank 0 makes a name that no other group of its host has.
std::string nameFor(const Store& store, int rank) {
  static std::atomic<int> count{0};
  constexpr const char* kKey = "hccl_group_name";
  if (rank == 0) store->set(kKey, "direct_" + std::to_string(getpid()) + "_" + std::to_string(++count));
  const auto name = store->get(kKey);
  return {name.begin(), name.end()};
}

c10::intrusive_ptr<Group> createDirectly(const Store& store, int rank, int size,
                                         const c10::intrusive_ptr<HcclOptions>& options) {
  auto copy = c10::make_intrusive<HcclOptions>(*options);
  copy->check(placeOf(rank, copy->group_name));  // before anybody is waited for
  if (copy->group_name.empty()) copy->group_name = nameFor(store, rank);
  for (int each = static_cast<int>(copy->global_ranks_in_group.size()); each < size; ++each) {
    copy->global_ranks_in_group.push_back(each);
  }
  return c10::make_intrusive<Group>(store, rank, size, std::move(copy));
}

c10::intrusive_ptr<Group> createWithTimeout(const Store& store, int rank, int size, std::chrono::milliseconds timeout) {
  auto options = c10::make_intrusive<HcclOptions>();
  options->timeout = timeout;
  return createDirectly(store, rank, size, options);
}

// Named for what torch_npu has: the arguments say which communicator and stream, of which there is one here.
void bindNames(py::class_<Group, pytorch::ProcessGroupSymCCL, c10::intrusive_ptr<Group>>& group) {
  const auto streamId = [](Group& self) { return self.stream().id(); };
  group
      .def(
          "get_hccl_comm_name", [](Group& self, int, bool) { return self.commName(); }, py::arg("rankid"),
          py::arg("init_comm") = true)
      .def("_set_hccl_comm_name", &Group::setCommName, py::arg("hccl_comm_name"))
      .def(
          "abort_hccl_comm", [](Group& self, const std::string&) { self.abort(); }, py::arg("reason") = "", NoGil())
      .def(
          "_get_stream_id", [streamId](Group& self, bool, int) { return streamId(self); }, py::arg("p2p") = false,
          py::arg("peer") = -1)
      .def(
          "get_coll_stream_id", [streamId](Group& self, int) { return streamId(self); }, py::arg("device"))
      .def(
          "get_p2p_stream_id", [streamId](Group& self, int, int, bool) { return streamId(self); }, py::arg("device"),
          py::arg("peer"), py::arg("is_batched"))
      .def("_group_start", &Group::startCoalescing, NoGil())
      .def(
          "_group_end", [](Group& self) { self.endCoalescing(); }, NoGil())
      .def("_window_register_and_exchange", &Group::registerWindow, py::arg("window_size"), py::arg("peer_ranks"),
           NoGil())
      .def("_get_window_mem", &Group::window);
}

}  // namespace

void bindBackend(py::module_& module) {
  py::module_::import("torch._C._distributed_c10d");
  pytorch::addHostDevice(kNpu);
  py::class_<Group, pytorch::ProcessGroupSymCCL, c10::intrusive_ptr<Group>> group(
      module, "ProcessGroupHCCL", "The backend of a group: group._get_backend(torch.device('npu')).");
  bindOptions(group);
  group.def(py::init(&createDirectly), py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("options"), NoGil())
      .def(py::init(&createWithTimeout), py::arg("store"), py::arg("rank"), py::arg("size"),
           py::arg("timeout") = kBackendDefaultTimeout, NoGil())
      .def("register_mem_pool", &Group::registerPool, py::arg("pool"), py::arg("symm") = false, NoGil())
      .def("deregister_mem_pool", &Group::deregisterPool, py::arg("pool"), NoGil())
      .def("all_gather_into_tensor_uneven", &Group::allGatherUneven, py::arg("output"), py::arg("input"),
           py::arg("output_split_sizes") = std::vector<std::int64_t>(), py::arg("opts") = c10d::AllgatherOptions(),
           NoGil())
      .def("reduce_scatter_tensor_uneven", &Group::reduceScatterUneven, py::arg("output"), py::arg("input"),
           py::arg("input_split_sizes") = std::vector<std::int64_t>(), py::arg("opts") = c10d::ReduceScatterOptions(),
           NoGil());
  bindNames(group);
  module.def("create_hccl", &create, py::arg("options"), py::arg("pg_options"));
}

}  // namespace symccl::npu
