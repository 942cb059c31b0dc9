#include "kernels/dispatch.hpp"

#include <array>

#include "base/environment.hpp"

namespace symccl {
namespace {

struct Tables {
  std::array<const KernelTable*, 3> list{};
  std::size_t count = 0;

  Tables() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (avx512) list[count++] = &kAvx512Table;
    if (avx2) list[count++] = &kAvx2Table;
#endif
    list[count++] = &kPortableTable;
  }
};

const KernelTable& kernels() {
  static const KernelTable& chosen = chooseKernels(environment().isa);
  return chosen;
}

}  // namespace

std::span<const KernelTable* const> kernelTables() {
  static const Tables tables;
  return std::span(tables.list).first(tables.count);
}

const KernelTable& chooseKernels(std::string_view isa) {
  const auto tables = kernelTables();
  // A better set than the processor has means the best that it has; "avx2" on a machine that has none, portable.
  if (isa == "portable") return *tables.back();
  if (isa == "avx2" && std::string_view(tables.front()->name) == "avx512") return *tables[1];
  return *tables.front();
}

void copy(void* destination, const void* source, std::size_t bytes, Stores stores) {
  copyWith(kernels(), {&destination, 1}, source, bytes, stores);
}

void copyToAll(std::span<void* const> destinations, const void* source, std::size_t bytes, Stores stores) {
  copyWith(kernels(), destinations, source, bytes, stores);
}

void reduce(const Reduction& reduction) { reduceWith(kernels(), reduction); }

const char* kernelIsa() { return kernels().name; }

}  // namespace symccl
