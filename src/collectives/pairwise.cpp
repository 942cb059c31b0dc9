// Pairwise exchange, in message form: all-to-all, reduce-scatter. In turn k rank r exchanges with rank k - r, so both
// directions of a pair have the same turn, and in place what leaves has left before what comes is stored.
//
// Cost: p alpha + beta (p-1)/p N. Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication
// operations in MPICH", IJHPCA 2005 (with another pairing, which needs p to be a power of two).

#include <algorithm>

#include "collectives/algorithms.hpp"
#include "collectives/exchange.hpp"
#include "collectives/partial.hpp"

namespace symccl {

namespace {

class Pairwise {
 public:
  explicit Pairwise(Round& round)
      : round_(round),
        exchange_(round),
        partial_(round),
        reduces_(round.operation().kind == Kind::reduceScatter),
        element_(sizeOf(round.operation().type)) {}

  Status run() {
    const std::size_t count = round_.operation().count, most = Exchange::kSlice / element_;
    for (std::size_t first = 0; first < count; first += most) {
      offset_ = first * element_;
      count_ = std::min(most, count - first);
      combined_ = 1;
      for (int turn = 0; turn < round_.size(); ++turn) {
        const int peer = (turn - round_.rank() + round_.size()) % round_.size();
        if (Status status = peer == round_.rank() ? alone() : with(peer); !status) return status;
      }
    }
    return exchange_.finish();
  }

 private:
  const std::byte* outgoing(int peer) const { return round_.layout.outgoing(peer) + offset_; }
  std::byte* incoming(int peer) const { return round_.layout.incoming(peer) + offset_; }

  // The turn in which this rank is its own peer.
  Status alone() {
    exchange_.post({});
    if (reduces_) return {};
    return round_.copy(incoming(round_.rank()), outgoing(round_.rank()), count_ * element_, Stores::ordinary);
  }

  Status with(int peer) {
    Result<std::byte*> slot = exchange_.open();
    if (!slot) return slot.error();
    const std::size_t bytes = count_ * element_;
    Status status = reduces_ ? partial_.begin(outgoing(peer), *slot, count_)
                             : round_.copy(*slot, outgoing(peer), bytes, Stores::ordinary);
    if (!status) return status;
    exchange_.post({peer});
    Result<const std::byte*> got = exchange_.take(peer);
    if (!got) return got.error();
    if (!reduces_) return round_.copy(incoming(peer), *got, bytes, Stores::ordinary);
    const bool last = ++combined_ == round_.size();
    void* result = incoming(round_.rank());
    if (combined_ > 2) return partial_.merge(result, *got, count_, last);
    return partial_.add(outgoing(round_.rank()), {&*got, 1}, {result}, count_, last);
  }

  Round& round_;
  Exchange exchange_;
  Partial partial_;
  const bool reduces_;
  const std::size_t element_;
  std::size_t offset_ = 0, count_ = 0;
  int combined_ = 1;  // inputs in the result so far
};

}  // namespace

Status pairwise(Round& round) { return Pairwise(round).run(); }

Work pairwiseWork(const Situation& s) {
  const auto n = static_cast<std::int64_t>(s.bytes);
  const std::int64_t peers = s.size - 1, slice = Exchange::kSlice;
  Work work{.barriers = 1, .handoffs = s.size * ((n + slice - 1) / slice), .pushed = peers * n, .pulled = peers * n};
  (s.kind == Kind::reduceScatter ? work.read : work.copied) = s.kind == Kind::reduceScatter ? peers * n : n;
  return work;
}

}  // namespace symccl
