// A cgroup with a memory limit below the process's own, where this user may make one.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "base/cgroup.hpp"

namespace symccl {

/// Exists as long as the object, which must outlive the processes in it.
class LimitedCgroup {
 public:
  explicit LimitedCgroup(std::size_t limit) {
    const auto read = [](const char* path) {
      std::ifstream file(path);
      return std::string(std::istreambuf_iterator<char>(file), {});
    };
    const auto levels =
        cgroupLevels(parseCgroupMounts(read("/proc/self/mountinfo")), read("/proc/self/cgroup"), "memory");
    for (const CgroupLevel& level : levels) {
      folder_ = level.folder + "/symccl-test-" + std::to_string(::getpid());
      if (::mkdir(folder_.c_str(), 0755) != 0) continue;
      std::ofstream file(folder_ + (level.unified ? "/memory.max" : "/memory.limit_in_bytes"));
      file << limit << std::flush;
      if (file) return;
      ::rmdir(folder_.c_str());
    }
    folder_.clear();
  }
  ~LimitedCgroup() {
    if (!folder_.empty()) ::rmdir(folder_.c_str());
  }
  explicit operator bool() const { return !folder_.empty(); }
  bool enter() const {
    std::ofstream file(folder_ + "/cgroup.procs");
    file << ::getpid() << std::flush;
    return static_cast<bool>(file);
  }

 private:
  std::string folder_;
};

}  // namespace symccl
