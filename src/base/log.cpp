#include "base/log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>

#include "base/environment.hpp"
#include "base/fork.hpp"
#include "base/log_format.hpp"
#include "base/version.hpp"

namespace symccl {
namespace {

constinit std::atomic<int> levelInForce{-1};

// The open file of one fork generation: a child has its own process id, so perhaps its own file.
constinit std::atomic<std::uint64_t> openFile{0};  // generation + 1 in the upper half, descriptor in the lower

const std::string& hostName() {
  static const std::string& name = *[] {
    char host[256] = "localhost";
    ::gethostname(host, sizeof host - 1);
    return new std::string(host);
  }();
  return name;
}

void writeLine(int fd, LogLevel level, const char* subsystem, int rank, const std::string& line) {
  const LineOrigin origin{std::chrono::system_clock::now(), hostName(), ::getpid(), ::gettid(), rank};
  const std::string out = formatLine(origin, level, subsystem, line);
  // One write a line, so that lines of processes that share the file do not mix. A failure has no one to go to.
  [[maybe_unused]] const auto written = ::write(fd, out.data(), out.size());
}

int openLogFile() {
  const Environment& settings = environment();
  if (settings.debugFile.empty()) return STDERR_FILENO;
  const std::string path = expandFileName(settings.debugFile, hostName(), ::getpid());
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd >= 0) return fd;
  const Error error = systemError("opening SYMCCL_DEBUG_FILE ", path);
  writeLine(STDERR_FILENO, LogLevel::warn, "LOG", -1, error.message() + "; writing to standard error");
  return STDERR_FILENO;
}

// Without a mutex, which a forked child might find locked for ever: of two openers one wins and the other closes.
int logFile() {
  const std::uint64_t generation = forkGeneration() + 1;
  std::uint64_t seen = openFile.load(std::memory_order_acquire);
  if (seen >> 32 == generation) return static_cast<int>(seen & 0xffffffff);
  const int fd = openLogFile();
  const std::uint64_t mine = generation << 32 | static_cast<std::uint32_t>(fd);
  if (openFile.compare_exchange_strong(seen, mine, std::memory_order_acq_rel)) return fd;
  if (fd != STDERR_FILENO) ::close(fd);
  return static_cast<int>(seen & 0xffffffff);
}

LogLevel startLog() {
  const LogLevel level = levelFromText(environment().debug);
  int unset = -1;
  const bool first = levelInForce.compare_exchange_strong(unset, static_cast<int>(level));
  if (!first) return level;
  log(LogLevel::version, "INIT", -1, "SymCCL version ", version());
  if (level >= LogLevel::warn) {
    for (const std::string& sentence : unknownVariables(::environ)) log(LogLevel::warn, "INIT", -1, sentence);
  }
  return level;
}

}  // namespace

LogLevel logLevel() {
  const int level = levelInForce.load(std::memory_order_relaxed);
  return level >= 0 ? static_cast<LogLevel>(level) : startLog();
}

void logLine(LogLevel level, const char* subsystem, int rank, const std::string& line) {
  // Warnings are never filtered: who narrows the flood down must not miss them.
  if (level > LogLevel::warn && !subsystemWanted(environment().debugSubsystems, subsystem)) return;
  writeLine(logFile(), level, subsystem, rank, line);
}

}  // namespace symccl
