// The connecting side of the handshake.
#pragma once

#include "bootstrap/process_descriptor.hpp"
#include "bootstrap/stream.hpp"
#include "peers/process_entry.hpp"

namespace symccl {

struct ConnectedLink {
  ProcessDescriptor socket;
  int pidHere;  ///< the peer's id in this process's pid namespace, from the kernel; 0: it has none
};

/// A socket on which the handshake with `peer` is done. Blocks; errors as in Links.
Result<ConnectedLink> connectLink(const ProcessEntry& self, const ProcessEntry& peer, Deadline deadline,
                                  const Interrupted& interrupted);

}  // namespace symccl
