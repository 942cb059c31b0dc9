// The one kernel behind most operators: the CPU's, over CPU tensors on the same memory.
//
// It is bound to each operator that has a CPU kernel. Where it were only a fallback, composite kernels would come
// before it, and those round differently from the CPU's own (native_layer_norm, addr).
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "call.hpp"
#include "generator.hpp"
#include "memory.hpp"
#include "registration.hpp"

namespace symccl::npu {
namespace {

enum class Kind : std::uint8_t { tensor, tensors, optionalTensors, storage, device, generator };

/// One argument that is more than a number.
struct Slot {
  std::uint16_t index;
  Kind kind;
  Role role;
};

std::optional<Kind> kindOf(c10::TypePtr type) {
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return Kind::tensor;
    case c10::TypeKind::StorageType:
      return Kind::storage;
    case c10::TypeKind::DeviceObjType:
      return Kind::device;
    case c10::TypeKind::GeneratorType:
      return Kind::generator;
    case c10::TypeKind::ListType: {
      const auto element = type->castRaw<c10::ListType>()->getElementType();
      if (element->kind() == c10::TypeKind::TensorType) return Kind::tensors;
      const auto optional = element->cast<c10::OptionalType>();
      if (optional && optional->getElementType()->kind() == c10::TypeKind::TensorType) return Kind::optionalTensors;
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

/// What to do with the arguments and results of an operator.
struct Plan {
  explicit Plan(const c10::FunctionSchema& schema) : name(schema.name()), results(schema.returns().size()) {
    arguments = schema.arguments().size();
    for (std::size_t i = 0; i < arguments; ++i) {
      const c10::Argument& argument = schema.arguments()[i];
      const auto kind = kindOf(argument.type());
      if (!kind) continue;
      const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
      const Role role = *kind == Kind::optionalTensors ? Role::index : written ? Role::written : Role::input;
      slots.push_back({static_cast<std::uint16_t>(i), *kind, role});
    }
  }
  std::string name;
  std::size_t arguments, results;
  std::vector<Slot> slots;
};

class Translation {
 public:
  Translation(const Plan& plan, torch::jit::Stack& stack) : plan_(plan), stack_(stack), call_(plan.name.c_str()) {}

  void translateArguments() {
    for (const Slot& slot : plan_.slots) translate(at(slot), slot);
    device_ = call_.place(wanted_);
    if (needsGenerator_) fillGenerators();
  }
  int device() const { return device_; }

  void translateResults() {
    call_.finish();
    for (std::size_t i = stack_.size() - plan_.results; i < stack_.size(); ++i) {
      c10::IValue& value = stack_[i];
      if (value.isTensor()) {
        value = call_.toNpu(value.toTensor());
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list = value.toTensorList();
        for (std::size_t k = 0; k < list.size(); ++k) list.set(k, call_.toNpu(list.get(k)));
      }
    }
  }

 private:
  c10::IValue& at(const Slot& slot) { return stack_[stack_.size() - plan_.arguments + slot.index]; }

  void translate(c10::IValue& value, const Slot& slot) {
    switch (slot.kind) {
      case Kind::tensor:
        if (value.isTensor()) value = call_.toCpu(value.toTensor(), slot.role);
        return;
      case Kind::tensors:
        if (value.isTensorList()) value = translated(value.toTensorList(), slot.role);
        return;
      case Kind::optionalTensors:
        if (!value.isNone()) value = translated(value.toOptionalTensorList(), slot.role);
        return;
      case Kind::storage:
        if (value.isStorage()) value = call_.toCpu(value.toStorage());
        return;
      case Kind::device:
        if (value.isNone() || value.toDevice().type() != kNpu) return;
        wanted_ = value.toDevice();
        value = c10::Device(c10::DeviceType::CPU);
        return;
      case Kind::generator:
        needsGenerator_ = true;
    }
  }

  c10::List<at::Tensor> translated(const c10::List<at::Tensor>& tensors, Role role) {
    c10::List<at::Tensor> list;
    list.reserve(tensors.size());
    for (const at::Tensor& tensor : tensors) list.push_back(call_.toCpu(tensor, role));
    return list;
  }

  c10::List<std::optional<at::Tensor>> translated(const c10::List<std::optional<at::Tensor>>& tensors, Role role) {
    c10::List<std::optional<at::Tensor>> list;
    list.reserve(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::optional<at::Tensor> tensor = tensors.get(i);
      list.push_back(tensor ? std::optional(call_.toCpu(*tensor, role)) : std::nullopt);
    }
    return list;
  }

  // Where none is given it is the device's, not the CPU's: random numbers of the two are apart.
  void fillGenerators() {
    for (const Slot& slot : plan_.slots) {
      if (slot.kind != Kind::generator) continue;
      c10::IValue& value = at(slot);
      value = cpuGeneratorOf(value.isNone() ? defaultGenerator(device_) : value.toGenerator());
    }
  }

  const Plan& plan_;
  torch::jit::Stack& stack_;
  Call call_;
  std::optional<c10::Device> wanted_;
  bool needsGenerator_ = false;
  int device_ = -1;
};

class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal) : previous_(currentDevice()) {
    if (ordinal != previous_) setDevice(ordinal);
  }
  ~CurrentDevice() {
    if (currentDevice() != previous_) setDevice(previous_);
  }

 private:
  const int previous_;
};

void run(const Plan& plan, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Translation translation(plan, *stack);
  translation.translateArguments();
  const CurrentDevice device(translation.device());
  {
    const RoutedToDevice memory(translation.device());
    const at::AutoDispatchBelowADInplaceOrView below;
    const c10::impl::ExcludeDispatchKeyGuard noAutocast(c10::autocast_dispatch_keyset);
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  translation.translateResults();
}

/// The kernel of one operator, with its plan.
class BoundKernel final : public c10::OperatorKernel {
 public:
  explicit BoundKernel(const c10::FunctionSchema& schema) : plan_(schema) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    run(plan_, op, stack);
  }

 private:
  const Plan plan_;
};

/// For operators that were not there when the device was registered.
void anyOperator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), "Could not run '",
                              op.operator_name(), "' with arguments from the 'npu' backend: the emulated device runs ",
                              "the CPU's kernels, and this operator has none");
  run(Plan(op.schema()), op, stack);
}

}  // namespace

void addFallback(torch::Library& library) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNamesForDispatchKey(c10::DispatchKey::CPU)) {
    if (name.getNamespace() != "aten") continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) continue;
    std::string local = name.name.substr(sizeof("aten::") - 1);
    if (!name.overload_name.empty()) local += "." + name.overload_name;
    library.impl(local.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoundKernel>(op->schema())));
  }
  static torch::Library others(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  others.fallback(torch::CppFunction::makeFromBoxedFunction<&anyOperator>());
}

}  // namespace symccl::npu
