// What this host and its container allow this process: CPUs, memory, kernel features, identity.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace symccl {

/// CPUs that this process may use: affinity mask, lowered by the cgroup's quota; at least 1.
int availableCpus();

/// The group of tasks in which the scheduler places this process: a cgroup, or with autogroups its session (torchrun
/// gives each rank one of its own). A process that yields lets only others of its own group run.
std::string schedulingGroup();

/// Memory that can still be taken: the least of what the machine has available and what each enclosing cgroup (v1 or
/// v2) leaves.
struct MemoryLeft {
  std::size_t bytes;
  std::string limit;  ///< which limit is the least, for people: "machine" or "cgroup /path (memory.max 1 GiB)"
};
MemoryLeft memoryLeft();

/// RLIMIT_AS's remaining address space, or SIZE_MAX.
std::size_t addressSpaceLeft();

/// What decides whether two processes can share memory and sockets. Equal strings: same host.
std::string hostIdentity();  ///< boot id, network namespace, SYMCCL_HOST_ID

/// 128 random bits from the kernel.
struct Uuid {
  std::array<std::uint64_t, 2> words{};
  friend bool operator==(const Uuid&, const Uuid&) = default;
  friend auto operator<=>(const Uuid&, const Uuid&) = default;
  std::string hex() const;
};
Uuid randomUuid();

/// "is running", "is stopped" or "is gone", from /proc.
const char* processState(int pid);

/// For people: 1536 -> "1.5 KiB".
std::string bytesText(std::size_t bytes);

}  // namespace symccl
