// What the control groups (v1 and v2) around this process leave it. Everything is read from text and folders that the
// caller names, so that tests can bring their own.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace symccl {

/// One mounted hierarchy.
struct CgroupMount {
  std::string folder;                    ///< where it is mounted
  std::string root;                      ///< which cgroup stands there
  std::vector<std::string> controllers;  ///< v1; empty: the one hierarchy of v2
};
/// The hierarchies in a text like that of /proc/self/mountinfo.
std::vector<CgroupMount> parseCgroupMounts(std::string_view mountinfo);

/// One cgroup on the way from a process's own up to the topmost that is visible.
struct CgroupLevel {
  std::string folder;
  std::string path;  ///< for people, as in "/job/task"
  bool unified;      ///< v2
};
/// The levels that may limit `controller` ("cpu" or "memory"); `membership` is a text like that of /proc/self/cgroup.
std::vector<CgroupLevel> cgroupLevels(const std::vector<CgroupMount>& mounts, std::string_view membership,
                                      std::string_view controller);

/// The least CPU quota of the levels, in CPUs (1.5: one and a half); nothing if there is none.
std::optional<double> cgroupCpuQuota(const std::vector<CgroupLevel>& levels);

/// The level whose tasks the scheduler treats as one group: the innermost that controls CPU shares. Null: they are in
/// the root group.
const CgroupLevel* cgroupOfScheduler(const std::vector<CgroupLevel>& levels);

struct CgroupMemory {
  std::size_t left;
  std::string limit;  ///< as in "cgroup /job (memory.max 1 GiB)"
};
/// The level that leaves the least memory; nothing if none has a limit. File pages that the kernel gives back first
/// (inactive_file) count as left.
std::optional<CgroupMemory> cgroupMemoryLeft(const std::vector<CgroupLevel>& levels);

}  // namespace symccl
