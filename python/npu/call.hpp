// One operator's call: arguments become CPU tensors over the same memory, results become npu tensors.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "alias.hpp"

namespace symccl::npu {

/// What the schema allows an argument to be.
enum class Role : std::uint8_t {
  input,    ///< all inputs of a call lie on one device; CPU tensors of no dimension may join
  written,  ///< likewise, and the kernel may change its sizes, memory, storage
  index,    ///< may also lie on the CPU
};

class Call {
 public:
  explicit Call(const char* name) : name_(name) {}

  /// The CPU tensor for an argument. Throws if it lies on another device than what was seen before.
  at::Tensor toCpu(const at::Tensor& tensor, Role role);
  c10::Storage toCpu(const c10::Storage& storage);

  /// Says where the call takes place, after its arguments: the device of its npu arguments, else `wanted`, else the
  /// current one. Throws if a CPU tensor that has dimensions came with npu tensors.
  int place(std::optional<c10::Device> wanted);

  /// Carries changes of the written arguments over to the npu tensors.
  void finish();
  /// The npu tensor for a result: the argument itself, a view of one's memory, or what the kernel has made.
  at::Tensor toNpu(const at::Tensor& result);

 private:
  struct Twin {
    StoragePtr npu, cpu;
  };
  struct Argument {
    at::Tensor npu, cpu;
    Role role;
  };
  void see(c10::Device device);
  [[noreturn]] void mixed(c10::Device one, c10::Device other) const;
  const StoragePtr& twinOf(const c10::Storage& storage);
  StoragePtr npuStorage(const StoragePtr& cpu);

  const char* const name_;
  int device_ = -1;
  bool cpuTensor_ = false;  // one with dimensions
  c10::SmallVector<Twin, 4> twins_;
  c10::SmallVector<Argument, 4> arguments_;
};

}  // namespace symccl::npu
