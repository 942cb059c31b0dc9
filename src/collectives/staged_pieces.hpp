// How the pieces for the other ranks share an input slot.
#pragma once

#include <algorithm>
#include <cstddef>

#include "collectives/round.hpp"

namespace symccl {

/// Staged kinds with one step a slice: a slot holds a chunk for each destination, or one chunk where all get the same
/// or only one rank gets something. The same on every rank.
class StagedPieces {
 public:
  explicit StagedPieces(Round& round)
      : round_(round), shared_(round.layout.sameForAll() || toOne(round.operation().kind)) {
    const std::size_t destinations = shared_ ? 1 : static_cast<std::size_t>(std::max(round.size() - 1, 1));
    chunk_ = kStagingSlot / destinations / kLine * kLine;
    largest_ = 0;
    for (int rank = 0; rank < round.size(); ++rank) {
      const Call& call = round.call(rank);
      largest_ = std::max<std::size_t>(largest_, isV(call.kind) ? call.count : round.layout.countBytes());
    }
  }

  std::size_t chunk() const { return chunk_; }      ///< bytes
  std::size_t largest() const { return largest_; }  ///< bytes of the largest piece of any rank
  /// Where the chunk from `sender` to `receiver` stands in the sender's slot.
  std::byte* at(int sender, int receiver, std::uint64_t slice) const {
    const auto index = static_cast<std::size_t>((receiver - sender - 1 + round_.size()) % round_.size());
    return round_.area(sender).inputSlot(slice) + (shared_ ? 0 : index * chunk_);
  }

  /// Copies bytes [offset, offset + chunk) of every piece for another rank into the own slot.
  Status copyIn(std::size_t offset, std::uint64_t slice) const {
    for (int k = 1; k < round_.size(); ++k) {
      const int peer = round_.rotated(k);
      const std::size_t bytes = round_.layout.bytesTo(peer);
      if (bytes <= offset) continue;
      const std::byte* from = round_.layout.outgoing(peer) + offset;
      const std::size_t now = std::min(chunk_, bytes - offset);
      if (Status status = round_.copy(at(round_.rank(), peer, slice), from, now, Stores::ordinary); !status)
        return status;
      if (shared_) return {};
    }
    return {};
  }

 private:
  static bool toOne(Kind kind) { return kind == Kind::gather || kind == Kind::gatherV; }

  Round& round_;
  const bool shared_;
  std::size_t chunk_, largest_;
};

}  // namespace symccl
