#include "base/host.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/cgroup.hpp"
#include "base/checks.hpp"
#include "base/environment.hpp"
#include "base/text_file.hpp"

namespace symccl {
namespace {

// Mounts are read once, as they stay; the own cgroup each time, because a process can be moved.
std::vector<CgroupLevel> ownCgroups(const char* controller) {
  static const auto& mounts =
      *new std::vector<CgroupMount>(parseCgroupMounts(readTextFile("/proc/self/mountinfo").value_or("")));
  return cgroupLevels(mounts, readTextFile("/proc/self/cgroup").value_or(""), controller);
}

int cpusInMask() {
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {  // too small a mask for the kernel is EINVAL
    cpu_set_t* mask = CPU_ALLOC(static_cast<std::size_t>(cpus));
    if (!mask) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus));
    const bool known = ::sched_getaffinity(0, bytes, mask) == 0;
    const int count = known ? CPU_COUNT_S(bytes, mask) : 0;
    CPU_FREE(mask);
    if (known) return count;
    if (errno != EINVAL) break;
  }
  return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

std::size_t machineMemoryLeft() {
  const std::string content = readTextFile("/proc/meminfo").value_or("");
  constexpr std::string_view kKey = "MemAvailable:";
  const auto at = content.find(kKey);
  if (at == std::string::npos) return SIZE_MAX;
  const auto digit = content.find_first_not_of(' ', at + kKey.size());
  std::size_t kibibytes = 0;
  if (digit != std::string::npos) std::from_chars(&content[digit], content.data() + content.size(), kibibytes);
  return kibibytes << 10;
}

bool randomBytes(void* to, std::size_t bytes) {
  ssize_t got = 0;
  do got = ::getrandom(to, bytes, 0);
  while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(bytes);
}

}  // namespace

int availableCpus() {
  int cpus = cpusInMask();
  const auto quota = cgroupCpuQuota(ownCgroups("cpu"));
  if (quota && *quota < cpus) cpus = static_cast<int>(*quota);
  return std::max(cpus, 1);
}

std::string schedulingGroup() {
  const std::vector<CgroupLevel> levels = ownCgroups("cpu");
  if (const CgroupLevel* level = cgroupOfScheduler(levels)) {
    struct stat seen{};
    const bool known = ::stat(level->folder.c_str(), &seen) == 0;
    return text("cgroup ", known ? std::to_string(seen.st_ino) : level->path);
  }
  if (readTextFile("/proc/sys/kernel/sched_autogroup_enabled").value_or("0").starts_with('0')) return "root";
  const std::string own = readTextFile("/proc/self/autogroup").value_or("root");  // "/autogroup-25 nice 0"
  return own.substr(0, own.find(' '));
}

MemoryLeft memoryLeft() {
  MemoryLeft least{machineMemoryLeft(), "machine"};
  auto cgroup = cgroupMemoryLeft(ownCgroups("memory"));
  if (cgroup && cgroup->left < least.bytes) least = {cgroup->left, std::move(cgroup->limit)};
  return least;
}

std::size_t addressSpaceLeft() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  const std::string content = readTextFile("/proc/self/statm").value_or("");
  std::size_t pages = 0;
  std::from_chars(content.data(), content.data() + content.size(), pages);
  const std::size_t used = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return used >= limit.rlim_cur ? 0 : limit.rlim_cur - used;
}

std::string hostIdentity() {
  std::string boot = readTextFile("/proc/sys/kernel/random/boot_id").value_or("unknown");
  if (const auto end = boot.find('\n'); end != std::string::npos) boot.erase(end);
  char network[64] = "net:unknown";
  if (const auto length = ::readlink("/proc/self/ns/net", network, sizeof network - 1); length > 0) network[length] = 0;
  const std::string& id = environment().hostId;
  return "boot " + boot + " " + network + (id.empty() ? "" : " id " + id);
}

std::string Uuid::hex() const {
  char out[33];
  std::snprintf(out, sizeof out, "%016llx%016llx", static_cast<unsigned long long>(words[0]),
                static_cast<unsigned long long>(words[1]));
  return out;
}

Uuid randomUuid() {
  Uuid uuid;
  if (randomBytes(uuid.words.data(), sizeof uuid.words)) return uuid;
  // A sandbox without getrandom: the bytes that the kernel gave at exec, made this call's own.
  static std::atomic<std::uint64_t> calls{0};
  if (const auto* atExec = reinterpret_cast<const void*>(::getauxval(AT_RANDOM))) {
    std::memcpy(uuid.words.data(), atExec, sizeof uuid.words);
  }
  uuid.words[0] ^= static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  uuid.words[1] ^= static_cast<std::uint64_t>(::getpid()) << 32 | calls.fetch_add(1, std::memory_order_relaxed);
  return uuid;
}

const char* processState(int pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const std::optional<std::string> read = readTextFile(path);
  if (!read && ::access(path.c_str(), F_OK) == 0) return "is running";  // no descriptor is left to look closer
  const std::string content = read.value_or("");
  const auto name = content.rfind(')');  // the name may hold anything, also brackets
  if (name == std::string::npos || name + 2 >= content.size()) return "is gone";
  switch (content[name + 2]) {
    case 'T':
    case 't':
      return "is stopped";
    case 'Z':
    case 'X':
    case 'x':
      return "is gone";
    default:
      return "is running";
  }
}

std::string bytesText(std::size_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1023.95 && unit < 6) {
    value /= 1024;
    ++unit;
  }
  char out[32];
  const bool whole = unit == 0 || static_cast<std::uint64_t>(value * 10 + 0.5) % 10 == 0;
  std::snprintf(out, sizeof out, whole ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return out;
}

}  // namespace symccl
