// What an algorithm costs on this host: integers only, so that every rank computes the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace symccl {

/// What the slowest rank of an algorithm does, as a multiple of what the probe measures. Bytes; they may be negative
/// where a sum counts something twice.
struct Work {
  std::int64_t barriers = 0;  ///< every rank waits for every other
  std::int64_t handoffs = 0;  ///< a rank waits for one other
  std::int64_t copied = 0;    ///< own memory to own memory
  std::int64_t pushed = 0;    ///< ... to memory that a peer reads next
  std::int64_t pulled = 0;    ///< what a peer wrote, to own memory
  std::int64_t read = 0;      ///< own memory read beside another stream
  std::int64_t readPeer = 0;  ///< what a peer wrote, read beside another stream
};

/// Constants of a host, of the better kind of store for each. Trivially copyable: rank 0's go to all.
struct CostModel {
  /// Picoseconds a KiB, in buffers of one size.
  struct Rates {
    std::uint64_t copied = 0, pushed = 0, pulled = 0, read = 0, readPeer = 0;
  };
  static constexpr std::array<std::uint64_t, 3> kSizes{64 << 10, 512 << 10, 2 << 20};

  std::uint64_t handoff = 0;  ///< picoseconds from one core's store to another's load
  std::array<Rates, 3> rates{};
  /// From so many bytes on, streaming stores to what a peer reads next are the better kind.
  std::uint64_t streamToPeers = 0;
  bool measured = false;  ///< else assumed, all or in part

  /// Between the sizes in a line, as at the nearest one outside.
  Rates at(std::uint64_t bytes) const;
  /// Of `work` on buffers of `bytes` by `size` ranks that share `cpus`.
  std::uint64_t picoseconds(const Work& work, std::uint64_t bytes, int size, int cpus) const;
};

/// A machine that has not been measured: a current server with two cores that share no cache but the last.
CostModel assumedCosts();

}  // namespace symccl
