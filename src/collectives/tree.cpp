// Binomial tree, in message form: broadcast, reduce, all-reduce (up, then down), gather, scatter.
//
// Cost, with alpha a hand-off, beta the time of a byte and s slices of N/s bytes: broadcast and reduce
// (s + log2 p - 1) (alpha + beta N/s), all-reduce twice that; gather and scatter log2 p alpha + beta (p-1) N at the
// root and half of it at its largest child. A slice is given to all children of a rank in one turn. Source: Thakur,
// Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005.

#include <algorithm>
#include <bit>

#include "collectives/algorithms.hpp"
#include "collectives/pipeline.hpp"

namespace symccl {

namespace {

// Gather and scatter: a slice holds a chunk of each rank of a subtree, in the order of the ranks counted from the root.
class BlockCarrier : public Carrier {
 public:
  explicit BlockCarrier(Round& round)
      : round_(round),
        size_(round.size()),
        root_(round.operation().root),
        own_((round.rank() - root_ + size_) % size_),
        chunk_(Exchange::kSlice / static_cast<std::size_t>(size_) / kLine * kLine),
        bytes_(round.layout.countBytes()) {
    lane_ = {binomialTree(round.rank(), root_, size_), (bytes_ + chunk_ - 1) / chunk_};
  }
  const Lane& lane() const { return lane_; }

 protected:
  bool isRoot() const { return own_ == 0; }
  int real(int v) const { return (v + root_) % size_; }
  int fromRoot(int rank) const { return (rank - root_ + size_) % size_; }
  // Ranks in the subtree of v > 0, itself included.
  int subtree(int v) const { return std::min(v & -v, size_ - v); }
  std::size_t chunkAt(std::size_t slice) const { return std::min(chunk_, bytes_ - slice * chunk_); }
  std::byte* at(std::byte* slot, int index) const { return slot + static_cast<std::size_t>(index) * chunk_; }
  const std::byte* at(const std::byte* slot, int index) const {
    return slot + static_cast<std::size_t>(index) * chunk_;
  }
  Status copy(void* to, const void* from, std::size_t bytes) const {
    return round_.copy(to, from, bytes, Stores::ordinary);
  }

  Round& round_;
  const int size_, root_, own_;
  const std::size_t chunk_, bytes_;
  Lane lane_;
};

class Gather final : public BlockCarrier {
 public:
  using BlockCarrier::BlockCarrier;

  Status carry(std::size_t, std::size_t slice, std::span<const std::byte* const> got, std::byte* onward) override {
    const Layout& layout = round_.layout;
    const std::size_t offset = slice * chunk_, now = chunkAt(slice);
    std::byte* own = onward == nullptr ? layout.incoming(root_) + offset : onward;
    if (Status status = copy(own, layout.outgoing(root_) + offset, now); !status) return status;
    for (std::size_t child = 0; child < got.size(); ++child) {
      const int v = fromRoot(lane_.place.children[child]);
      for (int i = 0; i < subtree(v); ++i) {
        std::byte* to = isRoot() ? layout.incoming(real(v + i)) + offset : at(onward, v + i - own_);
        if (Status status = copy(to, at(got[child], i), now); !status) return status;
      }
    }
    return {};
  }
};

class Scatter final : public BlockCarrier {
 public:
  using BlockCarrier::BlockCarrier;

  Status carry(std::size_t, std::size_t slice, std::span<const std::byte* const> got, std::byte* onward) override {
    const Layout& layout = round_.layout;
    const std::size_t offset = slice * chunk_, now = chunkAt(slice);
    // The parent's slice holds its whole subtree, this rank's part at its distance from the parent.
    const std::byte* given = isRoot() ? nullptr : at(got[0], own_ - fromRoot(lane_.place.parent));
    const auto piece = [&](int index) { return isRoot() ? layout.outgoing(real(index)) + offset : at(given, index); };
    if (Status status = copy(layout.incoming(root_) + offset, piece(0), now); !status) return status;
    const int all = onward == nullptr ? 1 : isRoot() ? size_ : subtree(own_);
    for (int i = 1; i < all; ++i) {
      if (Status status = copy(at(onward, i), piece(i), now); !status) return status;
    }
    return {};
  }
};

template <class Blocks>
Status moveBlocks(Round& round, Way way) {
  Exchange exchange(round);
  Blocks carrier(round);
  if (Status status = alongTrees(exchange, way, {&carrier.lane(), 1}, carrier); !status) return status;
  return exchange.finish();
}

}  // namespace

Status tree(Round& round) {
  const Operation& operation = round.operation();
  if (operation.kind == Kind::gather) return moveBlocks<Gather>(round, Way::up);
  if (operation.kind == Kind::scatter) return moveBlocks<Scatter>(round, Way::down);
  const int root = operation.kind == Kind::allReduce ? 0 : operation.root;
  const Place place = binomialTree(round.rank(), root, round.size());
  return runAlong(round, {&place, 1});
}

Work treeWork(const Situation& s) {
  const auto n = static_cast<std::int64_t>(s.bytes);
  const int levels = std::bit_width(static_cast<unsigned>(s.size - 1));
  if (s.kind == Kind::gather)
    return {.barriers = 1, .handoffs = levels, .copied = n, .pushed = s.size / 2 * n, .pulled = (s.size - 1) * n};
  if (s.kind == Kind::scatter)
    return {.barriers = 1, .handoffs = levels, .copied = n, .pushed = (s.size - 1) * n, .pulled = s.size / 2 * n};
  return alongTreesWork(s, levels, levels, 1);
}

}  // namespace symccl
