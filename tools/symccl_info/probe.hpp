// Whether this host allows what SymCCL builds on: each question is tried, not looked up.
#pragma once

#include <string>

namespace symccl::info {

/// "yes" with details, or "no: " with the system's refusal.
std::string probeMemfd();
std::string probeSeals();
std::string probeReserve();    ///< fallocate and punching holes in a memfd
std::string probePopulate();   ///< MADV_POPULATE_READ
std::string probeHugePages();  ///< transparent huge pages for shared memory, and explicit ones
std::string probeMembarrier();
std::string probeAbstractSocket();
/// How many of the heaps' agreed addresses are free in this process.
std::string probeWindow();

}  // namespace symccl::info
