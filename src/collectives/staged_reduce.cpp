// Staged all-reduce and reduce: 1 MiB slices through the control areas, two steps a slice. docs/protocol.md 2.4.
//
// Cost per rank: 5 N - 2 N/p loaded and stored (copy in, combine, copy out; the own part is never copied in); two
// hand-offs a slice. The copy-in of the next slice stands between publishing and awaiting a slice's second step.
// Source: movement-avoiding reduction (Peng et al., YHCCL, SC'23).

#include <algorithm>

#include "collectives/algorithms.hpp"

namespace symccl {

namespace {

class StagedReduce {
 public:
  explicit StagedReduce(Round& round)
      : round_(round),
        element_(sizeOf(round.operation().type)),
        slice_(kStagingSlot / element_),
        count_(round.operation().count),
        send_(static_cast<const std::byte*>(round.operation().send)),
        receives_(round.operation().kind == Kind::allReduce || round.rank() == round.operation().root),
        recv_(receives_ ? static_cast<std::byte*>(round.operation().recv) : nullptr),
        stores_(round, Round::Outputs::own, count_ * element_) {}

  Status run() {
    std::uint64_t& slice = round_.scratch().slice;
    ++slice;
    if (Status status = copyIn(0, slice); !status) return status;
    for (std::size_t first = 0; first < count_; first += slice_) {
      if (Status status = round_.stepAll(); !status) return status;
      if (Status status = combine(first, slice); !status) return status;
      round_.step();
      const bool last = first + slice_ >= count_;
      if (!last) {
        if (Status status = copyIn(first + slice_, slice + 1); !status) return status;
      }
      if (Status status = round_.awaitAll(); !status) return status;
      if (Status status = copyOut(first); !status) return status;
      if (!last) ++slice;
    }
    return {};
  }

 private:
  std::size_t countAt(std::size_t first) const { return std::min(slice_, count_ - first); }
  Part part(std::size_t first, int rank) const { return partOf(countAt(first), element_, rank, round_.size()); }

  Status copyIn(std::size_t first, std::uint64_t slice) {
    const Part own = part(first, round_.rank());
    std::byte* slot = round_.area(round_.rank()).inputSlot(slice);
    const std::byte* from = send_ + first * element_;
    if (Status status = round_.copy(slot, from, own.first * element_, Stores::ordinary); !status) return status;
    return round_.copy(slot + own.last * element_, from + own.last * element_, (countAt(first) - own.last) * element_,
                       Stores::ordinary);
  }

  Status combine(std::size_t first, std::uint64_t slice) {
    const Part own = part(first, round_.rank());
    auto& sources = round_.scratch().pieces;
    auto& targets = round_.scratch().targets;
    sources.clear();
    targets.clear();
    for (int rank = 0; rank < round_.size(); ++rank) {
      const std::byte* input = rank == round_.rank() ? send_ + first * element_ : round_.area(rank).inputSlot(slice);
      sources.push_back(input + own.first * element_);
    }
    targets.push_back(round_.area(round_.rank()).resultSlot() + own.first * element_);
    if (receives_) targets.push_back(recv_ + (first + own.first) * element_);
    return round_.reduce(sources, targets, own.count(), Stores::ordinary);
  }

  Status copyOut(std::size_t first) {
    if (!receives_) return {};
    for (int k = 1; k < round_.size(); ++k) {
      const int rank = round_.rotated(k);
      const Part theirs = part(first, rank);
      std::byte* to = recv_ + (first + theirs.first) * element_;
      const std::byte* from = round_.area(rank).resultSlot() + theirs.first * element_;
      if (Status status = round_.copy(to, from, theirs.count() * element_, stores_); !status) return status;
    }
    return {};
  }

  Round& round_;
  const std::size_t element_, slice_, count_;
  const std::byte* const send_;
  const bool receives_;
  std::byte* const recv_;
  const Round::TimedStores stores_;
};

}  // namespace

Status stagedReduce(Round& round) { return StagedReduce(round).run(); }

Work stagedReduceWork(const Situation& s) {
  const auto n = static_cast<std::int64_t>(s.bytes);
  const std::int64_t peers = s.size - 1, part = n / s.size;
  const std::int64_t slices = (n + std::int64_t{kStagingSlot} - 1) / std::int64_t{kStagingSlot};
  return {.barriers = 1 + 2 * slices,
          .copied = part,
          .pushed = peers * part,
          .pulled = s.size * part,
          .readPeer = (peers - 1) * part};
}

}  // namespace symccl
