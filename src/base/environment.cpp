#include "base/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "base/checks.hpp"

namespace symccl {

std::optional<std::size_t> sizeFromText(std::string_view value) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(value.data() + value.size() - end));
  int shift = 0;
  if (unit == "K" || unit == "k")
    shift = 10;
  else if (unit == "M" || unit == "m")
    shift = 20;
  else if (unit == "G" || unit == "g")
    shift = 30;
  else if (unit == "T" || unit == "t")
    shift = 40;
  else if (!unit.empty())
    return std::nullopt;
  if (number > (SIZE_MAX >> shift)) return std::nullopt;
  return number << shift;
}

namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr std::size_t kHeapGranule = 2 * kMebibyte;
constexpr std::size_t kHeapLeast = 64 * kMebibyte;
constexpr std::size_t kHeapMost = std::size_t{1} << 40;  // the distance between two heaps

bool oneOf(std::string_view value, std::initializer_list<std::string_view> words, std::string& result) {
  std::string lower(value);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (std::find(words.begin(), words.end(), lower) == words.end()) return false;
  result = lower;
  return true;
}

bool readSwitch(std::string_view value, bool& to) {
  to = value == "1";
  return value == "0" || value == "1";
}

bool readHeapSize(std::string_view value, Environment& to) {
  const auto bytes = sizeFromText(value);
  if (!bytes || *bytes < kHeapLeast || *bytes > kHeapMost) return false;
  to.heapBytes = (*bytes + kHeapGranule - 1) / kHeapGranule * kHeapGranule;
  return true;
}

bool readThreshold(std::string_view value, std::optional<std::size_t>& to) {
  to = sizeFromText(value);
  return value.empty() || to;
}

bool readAlgorithm(std::string_view value, Environment& to) {
  to.algorithm = value;
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) || std::string_view("_-:;/=").find(static_cast<char>(c)) != std::string_view::npos;
  };
  return value.size() <= 1600 && std::all_of(value.begin(), value.end(), fits);
}

bool readSubsystems(std::string_view value, Environment& to) {
  std::string list;
  bool inName = false;
  for (const unsigned char c : value) {
    const bool separator = c == ',' || c == '^';
    if (!std::isalnum(c) && c != '_' && !separator) return false;
    if (c == ',' && !inName) return false;
    if (c == '^' && !list.empty() && list.back() != ',') return false;
    inName = !separator;
    list += static_cast<char>(std::toupper(c));
  }
  if (!list.empty() && !inName) return false;
  to.debugSubsystems = list;
  return true;
}

bool readDebugFile(std::string_view value, Environment& to) {
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i] != '%') continue;
    if (++i == value.size() || (value[i] != 'h' && value[i] != 'p' && value[i] != '%')) return false;
  }
  to.debugFile = value;
  return true;
}

bool readHostId(std::string_view value, Environment& to) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; };
  if (value.size() > 64 || !std::all_of(value.begin(), value.end(), plain)) return false;
  to.hostId = value;
  return true;
}

bool readNumber(std::string_view value, int least, int most, int& to) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), to);
  return error == std::errc() && end == value.data() + value.size() && to >= least && to <= most;
}

bool readDevices(std::string_view value, Environment& to) {
  if (value.empty()) return true;
  return readNumber(value, 1, 64, to.npuDevices);
}

bool readThreads(std::string_view value, Environment& to) { return readNumber(value, 0, 64, to.threads); }

bool readRoot(std::string_view value, Environment& to) {
  to.root = value;
  if (value.empty()) return true;
  if (constexpr std::string_view kUnix = "unix:@"; value.starts_with(kUnix)) {
    return value.size() > kUnix.size() && value.size() <= kUnix.size() + 107;  // the longest abstract name
  }
  const auto colon = value.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const auto host = value.substr(0, colon), port = value.substr(colon + 1);
  if (host.find(':') != std::string_view::npos && (host.front() != '[' || host.back() != ']')) return false;
  int number = 0;
  return readNumber(port, 1, 65535, number);
}

bool readToken(std::string_view value, Environment& to) {
  to.token = value;
  return value.size() <= 256;
}

/// One row: what people read, and how the value is read. The default goes through the same reader.
struct Row {
  Variable shown;
  bool (*read)(std::string_view, Environment&);
};

const std::array kRows{
    Row{{"SYMCCL_DEBUG", "none", "none, version, warn, info or trace",
         "How much is written about what the library does."},
        [](std::string_view v, Environment& to) {
          return oneOf(v, {"none", "version", "warn", "info", "trace"}, to.debug);
        }},
    Row{{"SYMCCL_DEBUG_SUBSYS", "", "names of subsystems separated by commas, each with ^ in front to leave it out",
         "The subsystems whose info and trace lines are written; all if not set, all others if only names with ^ are "
         "given."},
        readSubsystems},
    Row{{"SYMCCL_DEBUG_FILE", "", "a path in which %h is the host's name, %p the process id and %% a percent sign",
         "The file that the lines of SYMCCL_DEBUG are appended to; standard error if not set."},
        readDebugFile},
    Row{{"SYMCCL_HEAP_SIZE", "16G", "a number of bytes, or one with K, M, G or T behind it, from 64M to 1T",
         "The size of the shared heap's window, rounded up to 2M: address space, which costs memory only where it is "
         "used."},
        readHeapSize},
    Row{{"SYMCCL_HOST_ID", "", "up to 64 letters, digits, dots, dashes and underscores",
         "Processes with different values treat each other as if they were on different hosts; for tests."},
        readHostId},
    Row{{"SYMCCL_HUGE_PAGES", "1", "0 or 1",
         "0 leaves the heap in small pages; 1 makes pages of 2 MiB where the kernel can (Linux 6.1, MADV_COLLAPSE)."},
        [](std::string_view v, Environment& to) { return readSwitch(v, to.hugePages); }},
    Row{{"SYMCCL_ISA", "auto", "auto, avx512, avx2 or portable",
         "The instruction set of copies and reductions; auto is the best one that the CPU has."},
        [](std::string_view v, Environment& to) { return oneOf(v, {"auto", "avx512", "avx2", "portable"}, to.isa); }},
    Row{{"SYMCCL_MEMBARRIER", "1", "0 or 1",
         "0 makes waiting ranks use memory fences in place of the system call membarrier."},
        [](std::string_view v, Environment& to) { return readSwitch(v, to.membarrier); }},
    Row{{"SYMCCL_NPU_DEVICES", "", "a number from 1 to 64",
         "How many devices the emulated accelerator npu shows; by default as many as the host has ranks, at least 8."},
        readDevices},
    Row{{"SYMCCL_PATH", "auto", "auto or staged",
         "auto works on registered buffers in place; staged copies through staging memory always."},
        [](std::string_view v, Environment& to) { return oneOf(v, {"auto", "staged"}, to.path); }},
    Row{{"SYMCCL_ROOT", "", "host:port, with an IPv6 address in brackets; or unix:@name",
         "Where rank 0 serves the store of programs without torch; by default it follows from the launcher's "
         "variables."},
        readRoot},
    Row{{"SYMCCL_STORES", "auto", "auto, ordinary or streaming",
         "How large operations store their results: through the caches, past them, or as their size suggests."},
        [](std::string_view v, Environment& to) { return oneOf(v, {"auto", "ordinary", "streaming"}, to.stores); }},
    Row{{"SYMCCL_THREADS", "0", "a number from 0 to 64",
         "How many threads of a rank move the bytes of a large operation; 0: as many as CPUs are left to it, at most "
         "4."},
        readThreads},
    Row{{"SYMCCL_TOKEN", "", "up to 256 bytes", "The secret that clients of SymCCL's own TCP store must know.", true},
        readToken},
    Row{{"SYMCCL_TEST_STAGING", "normal", "normal or inaccessible",
         "inaccessible makes any access to staging memory fault, which proves that a path does without it; for tests."},
        [](std::string_view v, Environment& to) { return oneOf(v, {"normal", "inaccessible"}, to.testStaging); }},
    Row{{"HCCL_ALGO", "", "level0:name;level1:name for all operations, or operation=level0:name with / between several",
         "Algorithms for the levels of the network, level0 inside a host, equal on all ranks; a name that an operation "
         "does not have leaves the choice to SymCCL, an unknown one is an error that lists the known ones."},
        readAlgorithm},
    Row{{"HCCL_RING_THRESHOLD", "", "a number of bytes, or one with K, M, G or T behind it",
         "From this size on operations that have a ring take it, where HCCL_ALGO names nothing. Not a variable of "
         "HCCL."},
        [](std::string_view v, Environment& to) { return readThreshold(v, to.ringThreshold); }},
    Row{{"HCCL_TREE_THRESHOLD", "", "a number of bytes, or one with K, M, G or T behind it",
         "Up to this size operations that have a tree take it, where HCCL_ALGO names nothing. Not a variable of HCCL."},
        [](std::string_view v, Environment& to) { return readThreshold(v, to.treeThreshold); }},
};

std::size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row[b.size()];
}

struct Loaded {
  Environment values;
  Status status;
};

// Never destroyed: destructors of other libraries may still log.
const Loaded& loaded() {
  static const Loaded& instance = *[] {
    auto* made = new Loaded;
    auto parsed = parseEnvironment([](const char* name) { return std::getenv(name); });
    if (!parsed) {
      made->status = parsed.error();
      parsed = parseEnvironment([](const char*) { return nullptr; });
    }
    made->values = *std::move(parsed);
    return made;
  }();
  return instance;
}

}  // namespace

std::span<const Variable> variables() {
  static const auto& shown = *[] {
    auto* made = new std::vector<Variable>;
    for (const Row& row : kRows) made->push_back(row.shown);
    return made;
  }();
  return shown;
}

Result<Environment> parseEnvironment(const std::function<const char*(const char*)>& lookup) {
  Environment result;
  for (const auto& [shown, read] : kRows) {
    const char* given = lookup(shown.name);
    const char* value = given && *given ? given : shown.standard;
    if (read(value, result)) continue;
    return invalid("the variable ", shown.name, " is '", shown.secret ? "(not shown)" : value,
                   "'; accepted: ", shown.accepted);
  }
  return result;
}

std::vector<std::string> unknownVariables(const char* const* environ) {
  std::vector<std::string> found;
  for (; environ && *environ; ++environ) {
    const std::string_view entry(*environ);
    if (!entry.starts_with("SYMCCL_")) continue;
    const std::string_view name = entry.substr(0, entry.find('='));
    const auto distance = [&](const Row& row) { return editDistance(name, row.shown.name); };
    const auto nearest = std::min_element(kRows.begin(), kRows.end(),
                                          [&](const Row& a, const Row& b) { return distance(a) < distance(b); });
    if (distance(*nearest) == 0) continue;
    found.push_back(
        text("the variable ", name, " is unknown and has no effect; the nearest one is ", nearest->shown.name));
  }
  return found;
}

const Environment& environment() { return loaded().values; }

Status environmentStatus() { return loaded().status; }

}  // namespace symccl
