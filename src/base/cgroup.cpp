#include "base/cgroup.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/checks.hpp"
#include "base/host.hpp"
#include "base/text_file.hpp"

namespace symccl {
namespace {

std::vector<std::string_view> split(std::string_view all, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = all.find(separator);
    if (at != 0 && !all.empty()) parts.push_back(all.substr(0, at));
    if (at == std::string_view::npos) return parts;
    all.remove_prefix(at + 1);
  }
}

// mountinfo writes space, tab, newline and backslash as \ooo.
std::string unescape(std::string_view field) {
  std::string out;
  for (std::size_t i = 0; i < field.size(); ++i) {
    unsigned value = 0;
    if (field[i] == '\\' && i + 3 < field.size() &&
        std::from_chars(&field[i + 1], &field[i + 1] + 3, value, 8).ptr == &field[i + 1] + 3) {
      out += static_cast<char>(value);
      i += 3;
    } else {
      out += field[i];
    }
  }
  return out;
}

std::optional<std::int64_t> number(std::string_view digits) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end == digits.data()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> numberIn(const CgroupLevel& level, const char* file) {
  const auto content = readTextFile(level.folder + "/" + file);
  return content ? number(*content) : std::nullopt;
}

// The value of `key` in a file of lines "key value", or 0.
std::int64_t statistic(const CgroupLevel& level, const char* file, std::string_view key) {
  const auto content = readTextFile(level.folder + "/" + file);
  if (!content) return 0;
  for (const std::string_view line : split(*content, '\n')) {
    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ' ') {
      return number(line.substr(key.size() + 1)).value_or(0);
    }
  }
  return 0;
}

// The part of `path` below `root`; empty where the process's cgroup is not below what is mounted, as in a container
// that sees its own cgroup as the mount's top but the host's path in /proc.
std::string_view below(std::string_view path, std::string_view root) {
  if (root == "/") return path == "/" || path.starts_with("/..") ? std::string_view() : path;
  if (!path.starts_with(root)) return {};
  const auto rest = path.substr(root.size());
  return rest.starts_with('/') ? rest : std::string_view();
}

void addLevels(const CgroupMount& mount, std::string_view path, std::vector<CgroupLevel>& levels) {
  std::string rest(below(path, mount.root));
  while (true) {
    levels.push_back({mount.folder + rest, rest.empty() ? mount.root : rest, mount.controllers.empty()});
    if (rest.empty()) return;
    rest.erase(rest.rfind('/'));
  }
}

std::optional<double> quotaOf(const CgroupLevel& level) {
  std::optional<std::int64_t> quota, period;
  if (level.unified) {
    const auto content = readTextFile(level.folder + "/cpu.max");  // "150000 100000" or "max 100000"
    if (!content) return std::nullopt;
    const auto words = split(*content, ' ');
    if (words.size() != 2) return std::nullopt;
    quota = number(words[0]);
    period = number(words[1]);
  } else {
    quota = numberIn(level, "cpu.cfs_quota_us");
    period = numberIn(level, "cpu.cfs_period_us");
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<CgroupMemory> memoryOf(const CgroupLevel& level) {
  const char* limitName = level.unified ? "memory.max" : "memory.limit_in_bytes";
  const auto limit = numberIn(level, limitName);
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 62;  // v1 writes the largest number of whole pages
  if (!limit || *limit < 0 || *limit >= kNoLimit) return std::nullopt;
  const auto used = numberIn(level, level.unified ? "memory.current" : "memory.usage_in_bytes").value_or(0);
  const auto reclaimable = statistic(level, "memory.stat", level.unified ? "inactive_file" : "total_inactive_file");
  const auto left = std::clamp<std::int64_t>(*limit - used + reclaimable, 0, *limit);
  return CgroupMemory{static_cast<std::size_t>(left), text("cgroup ", level.path, " (", limitName, " ",
                                                           bytesText(static_cast<std::size_t>(*limit)), ")")};
}

}  // namespace

std::vector<CgroupMount> parseCgroupMounts(std::string_view mountinfo) {
  // id parent major:minor root folder options [tags...] - type source options
  std::vector<CgroupMount> mounts;
  for (const std::string_view line : split(mountinfo, '\n')) {
    const auto fields = split(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 6 || fields.end() - dash < 4) continue;
    CgroupMount mount{unescape(fields[4]), unescape(fields[3]), {}};
    if (dash[1] == "cgroup2") {
      mounts.push_back(std::move(mount));
    } else if (dash[1] == "cgroup") {
      for (const std::string_view option : split(dash[3], ',')) mount.controllers.emplace_back(option);
      mounts.push_back(std::move(mount));
    }
  }
  return mounts;
}

std::vector<CgroupLevel> cgroupLevels(const std::vector<CgroupMount>& mounts, std::string_view membership,
                                      std::string_view controller) {
  const auto contains = [&](const auto& names) {
    return std::find(names.begin(), names.end(), controller) != names.end();
  };
  std::vector<CgroupLevel> levels;
  for (const std::string_view line : split(membership, '\n')) {  // "4:cpu,cpuacct:/path"; v2: "0::/path"
    const auto first = line.find(':');
    const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const bool unified = second == first + 1;
    if (!unified && !contains(split(line.substr(first + 1, second - first - 1), ','))) continue;
    const auto mount = std::find_if(mounts.begin(), mounts.end(), [&](const CgroupMount& candidate) {
      return unified ? candidate.controllers.empty() : contains(candidate.controllers);
    });
    if (mount != mounts.end()) addLevels(*mount, line.substr(second + 1), levels);
  }
  return levels;
}

std::optional<double> cgroupCpuQuota(const std::vector<CgroupLevel>& levels) {
  std::optional<double> least;
  for (const CgroupLevel& level : levels) {
    const auto quota = quotaOf(level);
    if (quota && (!least || *quota < *least)) least = quota;
  }
  return least;
}

const CgroupLevel* cgroupOfScheduler(const std::vector<CgroupLevel>& levels) {
  // In v2 only groups below the root have cpu.weight, and only where the controller is enabled; in v1 all have
  // cpu.shares, and only the root has release_agent.
  for (const CgroupLevel& level : levels) {
    if (!readTextFile(level.folder + (level.unified ? "/cpu.weight" : "/cpu.shares"))) continue;
    if (level.unified || !readTextFile(level.folder + "/release_agent")) return &level;
  }
  return nullptr;
}

std::optional<CgroupMemory> cgroupMemoryLeft(const std::vector<CgroupLevel>& levels) {
  std::optional<CgroupMemory> least;
  for (const CgroupLevel& level : levels) {
    auto memory = memoryOf(level);
    if (memory && (!least || memory->left < least->left)) least = std::move(memory);
  }
  return least;
}

}  // namespace symccl
