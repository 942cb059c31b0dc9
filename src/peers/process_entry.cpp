#include "peers/process_entry.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "base/checks.hpp"
#include "peers/links.hpp"

namespace symccl {
namespace {

std::uint64_t ownPidNamespace() {
  struct stat seen{};
  return ::stat("/proc/self/ns/pid", &seen) == 0 ? seen.st_ino : 0;
}

}  // namespace

void ProcessEntry::write(WireWriter& out) const { out.uuid(process).u32(pid).u64(pidNamespace).string(host); }

ProcessEntry ProcessEntry::read(WireReader& in) {
  ProcessEntry entry;
  entry.process = in.uuid();
  entry.pid = in.u32();
  entry.pidNamespace = in.u64();
  entry.host = in.string(512);
  return entry;
}

ProcessEntry ProcessEntry::ofThisProcess() {
  return {randomUuid(), static_cast<std::uint32_t>(::getpid()), ownPidNamespace(), hostIdentity()};
}

int pidHereOf(const ProcessEntry& entry, const ProcessEntry& self) {
  // Namespaces are told by number, and the first one has the same number on every host.
  const bool here = entry.pidNamespace == self.pidNamespace && entry.host == self.host;
  return here ? static_cast<int>(entry.pid) : 0;
}

std::string pidText(const ProcessEntry& entry, int pidHere) {
  if (pidHere == static_cast<int>(entry.pid)) return text("pid ", entry.pid);
  if (pidHere == 0) return text("pid ", entry.pid, " as seen in its own pid namespace");
  return text("pid ", pidHere, ", in its own pid namespace ", entry.pid);
}

std::string stateText(int pidHere, bool gone) {
  if (gone) return " is gone";
  return pidHere == 0 ? "" : text(' ', processState(pidHere));
}

std::string Peer::describe(int rank, bool knownGone) const {
  const std::string state = stateText(pidHere_, knownGone || gone_.load(std::memory_order_relaxed));
  return text("rank ", rank, " (", pidText(entry_, pidHere_), ')', state.empty() ? " has its link open" : state);
}

}  // namespace symccl
