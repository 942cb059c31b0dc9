#include "base/log_format.hpp"

#include <cstdio>

namespace symccl {
namespace {

constexpr const char* kLevels[] = {"NONE", "VERSION", "WARN", "INFO", "TRACE"};

// By hand, because localtime_r and gmtime_r take a lock that a forked child may find taken.
std::string timeText(std::chrono::system_clock::time_point time) {
  using namespace std::chrono;
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(floor<microseconds>(time - day));
  char out[64];
  std::snprintf(out, sizeof out, "%04d-%02u-%02uT%02d:%02d:%02d.%06dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()), static_cast<int>(clock.subseconds().count()));
  return out;
}

}  // namespace

LogLevel levelFromText(std::string_view text) {
  if (text == "version") return LogLevel::version;
  if (text == "warn") return LogLevel::warn;
  if (text == "info") return LogLevel::info;
  if (text == "trace") return LogLevel::trace;
  return LogLevel::none;
}

bool subsystemWanted(std::string_view list, std::string_view subsystem) {
  bool onlyExcludes = true;
  int decision = -1;
  while (!list.empty()) {
    const auto comma = list.find(',');
    std::string_view entry = list.substr(0, comma);
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
    const bool exclude = entry.starts_with('^');
    if (exclude)
      entry.remove_prefix(1);
    else
      onlyExcludes = false;
    if (entry == subsystem || entry == "ALL") decision = exclude ? 0 : 1;
  }
  return decision == -1 ? onlyExcludes : decision == 1;
}

std::string expandFileName(std::string_view pattern, std::string_view host, int pid) {
  std::string name;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      name += pattern[i];
      continue;
    }
    const char what = pattern[++i];
    if (what == 'h')
      name += host;
    else if (what == 'p')
      name += std::to_string(pid);
    else
      name += what;
  }
  return name;
}

std::string formatLine(const LineOrigin& origin, LogLevel level, std::string_view subsystem, std::string_view line) {
  const std::string rank = origin.rank < 0 ? "-" : std::to_string(origin.rank);
  std::string out = text(timeText(origin.time), ' ', origin.host, ':', origin.pid, ':', origin.thread, " rank ", rank,
                         ' ', kLevels[static_cast<int>(level)], ' ', subsystem, ' ', line);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return out + '\n';
}

}  // namespace symccl
