// How a process of this host is told to others, and how it is spoken of.
#pragma once

#include <cstdint>
#include <string>

#include "base/host.hpp"
#include "bootstrap/wire.hpp"

namespace symccl {

/// How a process is told to others (through a store).
struct ProcessEntry {
  Uuid process;           ///< random; its link socket is the abstract address "symccl-<hex>"
  std::uint32_t pid = 0;  ///< as seen in its own pid namespace
  std::uint64_t pidNamespace = 0;
  std::string host;  ///< hostIdentity()

  void write(WireWriter& out) const;
  static ProcessEntry read(WireReader& in);
  /// A fresh entry for the calling process.
  static ProcessEntry ofThisProcess();
};

/// The process's id as the process of `self` sees it, if the two are in the same pid namespace; else 0.
int pidHereOf(const ProcessEntry& entry, const ProcessEntry& self);

/// "pid 811", with a note where that is its id in another pid namespace. `pidHere`: its id in this one, or 0.
std::string pidText(const ProcessEntry& entry, int pidHere);
/// " is gone", " is stopped", " is running"; or empty where that cannot be seen from here.
std::string stateText(int pidHere, bool gone);

}  // namespace symccl
