#include "symccl_info/host_page.hpp"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "base/cgroup.hpp"
#include "base/checks.hpp"
#include "base/host.hpp"
#include "base/text_file.hpp"
#include "kernels/kernels.hpp"
#include "symccl_info/probe.hpp"

namespace symccl::info {
namespace {

std::string line(std::string_view name, std::string_view value) {
  std::string out = "  " + std::string(name);
  out.append(out.size() < 22 ? 22 - out.size() : 1, ' ');
  return out.append(value) + '\n';
}

std::vector<CgroupLevel> ownLevels(const char* controller) {
  return cgroupLevels(parseCgroupMounts(readTextFile("/proc/self/mountinfo").value_or("")),
                      readTextFile("/proc/self/cgroup").value_or(""), controller);
}

std::string quotaText() {
  const auto quota = cgroupCpuQuota(ownLevels("cpu"));
  if (!quota) return "none";
  char out[32];
  std::snprintf(out, sizeof out, "%.2f CPUs", *quota);
  return out;
}

std::string cgroupMemoryText() {
  const auto memory = cgroupMemoryLeft(ownLevels("memory"));
  return memory ? text(bytesText(memory->left), " left by ", memory->limit) : "no limit";
}

std::string instructionSets() {
  std::string names;
#if defined(__x86_64__)
  const auto add = [&](bool has, const char* name) {
    if (has) names += (names.empty() ? "" : " ") + std::string(name);
  };
  add(__builtin_cpu_supports("sse4.2"), "sse4.2");
  add(__builtin_cpu_supports("avx"), "avx");
  add(__builtin_cpu_supports("f16c"), "f16c");
  add(__builtin_cpu_supports("fma"), "fma");
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512bw"), "avx512bw");
  add(__builtin_cpu_supports("avx512dq"), "avx512dq");
  add(__builtin_cpu_supports("avx512vl"), "avx512vl");
  add(__builtin_cpu_supports("avx512bf16"), "avx512bf16");
#endif
  return names.empty() ? "none beyond the base of this architecture" : names;
}

std::string limitText(decltype(RLIMIT_AS) which, bool isBytes) {
  rlimit limit{};
  if (::getrlimit(which, &limit) != 0) return "unknown";
  if (limit.rlim_cur == RLIM_INFINITY) return "no limit";
  return isBytes ? bytesText(limit.rlim_cur) : std::to_string(limit.rlim_cur);
}

std::string addressSpaceText() {
  const std::size_t left = addressSpaceLeft();
  return left == SIZE_MAX ? "no limit" : text(bytesText(left), " left of ", limitText(RLIMIT_AS, true));
}

}  // namespace

std::string hostPage() {
  utsname name{};
  ::uname(&name);
  const MemoryLeft memory = memoryLeft();
  const auto machine =
      static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::string page = "CPUs\n";
  page += line("online", std::to_string(::sysconf(_SC_NPROCESSORS_ONLN)));
  page += line("cgroup quota", quotaText());
  page += line("usable", std::to_string(availableCpus()));
  page += line("architecture", name.machine);
  page += line("instruction sets", instructionSets());
  page += line("kernels in use", kernelIsa());
  page += "\nmemory\n";
  page += line("machine", bytesText(machine));
  page += line("cgroup", cgroupMemoryText());
  page += line("left", text(bytesText(memory.bytes), ", limited by: ", memory.limit));
  page += line("address space", addressSpaceText());
  page += line("open files", limitText(RLIMIT_NOFILE, false));
  page += line("huge pages", probeHugePages());
  page += line("heap window", probeWindow());
  page += "\nkernel\n";
  page += line("release", text(name.sysname, ' ', name.release));
  page += line("host identity", hostIdentity());
  page += line("memfd", probeMemfd());
  page += line("seals", probeSeals());
  page += line("reserve", probeReserve());
  page += line("populate", probePopulate());
  page += line("membarrier", probeMembarrier());
  page += line("abstract sockets", probeAbstractSocket());
  return page;
}

}  // namespace symccl::info
