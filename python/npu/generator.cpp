#include "generator.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <array>
#include <mutex>

namespace symccl::npu {
namespace {

class NpuGenerator final : public c10::GeneratorImpl {
 public:
  explicit NpuGenerator(c10::DeviceIndex ordinal, at::Generator cpu = at::detail::createCPUGenerator())
      : GeneratorImpl(c10::Device(kNpu, ordinal), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        cpu_(std::move(cpu)) {}

  const at::Generator& cpu() const { return cpu_; }
  void set_current_seed(std::uint64_t seed) override { cpu_.set_current_seed(seed); }
  std::uint64_t current_seed() const override { return cpu_.current_seed(); }
  std::uint64_t seed() override { return cpu_.seed(); }
  void set_offset(std::uint64_t) override { refuseOffset(); }
  std::uint64_t get_offset() const override { refuseOffset(); }
  void set_state(const c10::TensorImpl& state) override { cpu_.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return cpu_.unsafeGetGeneratorImpl()->get_state(); }

 private:
  [[noreturn]] static void refuseOffset() {
    TORCH_CHECK(false, "npu: generators of the emulated device have no offset; use get_state and set_state");
  }
  GeneratorImpl* clone_impl() const override { return new NpuGenerator(device().index(), cpu_.clone()); }

  at::Generator cpu_;
};

}  // namespace

const at::Generator& defaultGenerator(int ordinal) {
  static const auto& generators = *[] {
    auto* all = new std::vector<at::Generator>;
    for (int i = 0; i < deviceCount(); ++i) all->push_back(newGenerator(i));
    return all;
  }();
  return generators[resolveDevice(ordinal)];
}

at::Generator newGenerator(int ordinal) {
  return at::make_generator<NpuGenerator>(static_cast<c10::DeviceIndex>(resolveDevice(ordinal)));
}

at::Generator cpuGeneratorOf(const at::Generator& generator) {
  if (!generator.defined() || generator.device().type() != kNpu) return generator;
  return static_cast<NpuGenerator*>(generator.unsafeGetGeneratorImpl())->cpu();
}

}  // namespace symccl::npu
