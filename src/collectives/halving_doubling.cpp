// Recursive halving and doubling, in message form: all-reduce, reduce-scatter (halving), all-gather (doubling).
//
// Cost for p = 2^k: reduce-scatter and all-gather log2 p alpha + beta (p-1)/p N, all-reduce twice that. Else the ranks
// beyond the greatest power of two give their input to a neighbour first and get the result last: two turns with N
// more.
// Source: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; Thakur, Rabenseifner, Gropp,
// "Optimization of collective communication operations in MPICH", IJHPCA 2005.

#include <algorithm>
#include <bit>

#include "collectives/algorithms.hpp"
#include "collectives/exchange.hpp"
#include "collectives/partial.hpp"

namespace symccl {

namespace {

// The core is 2^k ranks. Of the first `2 extra` ranks, each even one is outside and has the odd one behind it as its
// neighbour in the core. The vector at work is cut into a piece for each rank of the core.
class HalvingDoubling {
 public:
  explicit HalvingDoubling(Round& round)
      : round_(round),
        exchange_(round),
        partial_(round),
        core_(static_cast<int>(std::bit_floor(static_cast<unsigned>(round.size())))),
        extra_(round.size() - core_),
        folds_(round.rank() < 2 * extra_),
        outside_(folds_ && round.rank() % 2 == 0),
        own_(folds_ ? round.rank() / 2 : round.rank() - extra_),
        element_(sizeOf(round.operation().type)),
        count_(round.operation().count),
        send_(static_cast<const std::byte*>(round.operation().send)),
        recv_(static_cast<std::byte*>(round.operation().recv)) {}

  Status run() {
    const Kind kind = round_.operation().kind;
    const std::size_t most = Exchange::kSlice / element_ / (kind == Kind::allReduce ? 1 : ranks());
    for (std::size_t first = 0; first < count_; first += most) {
      first_ = first;
      now_ = std::min(most, count_ - first);
      Status status = kind == Kind::allReduce ? allReduce() : kind == Kind::reduceScatter ? scatter() : gather();
      if (!status) return status;
    }
    return exchange_.finish();
  }

 private:
  Status allReduce() {
    work_ = recv_ + first_ * element_;
    const auto begin = [&](std::byte* to) { return partial_.begin(send_ + first_ * element_, to, now_); };
    const auto add = [&](const std::byte* got) {
      return partial_.add(send_ + first_ * element_, {&got, 1}, {work_}, now_, false);
    };
    if (Status status = fold(begin, add); !status) return status;
    if (Status status = halve(); !status) return status;
    if (Status status = doubleUp(); !status) return status;
    return unfold(work_, now_ * element_, work_);
  }

  // Blocks of all ranks stand side by side in the result slot while they are at work.
  Status scatter() {
    work_ = round_.area(round_.rank()).resultSlot();
    const auto begin = [&](std::byte* to) {
      return eachBlock([&](std::size_t block) { return partial_.begin(input(block), to + at(block), now_); });
    };
    const auto add = [&](const std::byte* got) {
      return eachBlock([&](std::size_t block) {
        const std::byte* other = got + at(block);
        return partial_.add(input(block), {&other, 1}, {work_ + at(block)}, now_, false);
      });
    };
    if (Status status = fold(begin, add); !status) return status;
    if (Status status = halve(); !status) return status;
    std::byte* result = recv_ + first_ * element_;
    if (!outside_) {
      if (Status status = copy(result, work_ + at(rank()), now_ * element_); !status) return status;
    }
    return unfold(work_ + at(folds_ && !outside_ ? rank() - 1 : 0), now_ * element_, result);
  }

  Status gather() {
    work_ = round_.area(round_.rank()).resultSlot();
    const std::byte* input = send_ + first_ * element_;
    const auto begin = [&](std::byte* to) { return copy(outside_ ? to : work_ + at(rank()), input, now_ * element_); };
    const auto add = [&](const std::byte* got) {
      if (Status status = begin(nullptr); !status) return status;
      return copy(work_ + at(rank() - 1), got, now_ * element_);
    };
    if (Status status = fold(begin, add); !status) return status;
    if (Status status = doubleUp(); !status) return status;
    if (Status status = unfold(work_, ranks() * now_ * element_, work_); !status) return status;
    return eachBlock([&](std::size_t block) {
      return copy(recv_ + (block * count_ + first_) * element_, work_ + at(block), now_ * element_);
    });
  }

  // `begin` writes this rank's input to where it is told, `add` takes a neighbour's to the vector at work as well.
  template <class Begin, class Add>
  Status fold(const Begin& begin, const Add& add) {
    if (outside_) {
      Result<std::byte*> slot = exchange_.open();
      if (!slot) return slot.error();
      if (Status status = begin(*slot); !status) return status;
      exchange_.post({round_.rank() + 1});
      return {};
    }
    if (extra_ > 0) exchange_.post({});
    if (!folds_) return begin(work_);
    Result<const std::byte*> got = exchange_.take(round_.rank() - 1);
    return got ? add(*got) : Status(got.error());
  }

  Status unfold(const std::byte* result, std::size_t bytes, std::byte* to) {
    if (extra_ == 0) return {};
    if (outside_) {
      exchange_.post({});
      Result<const std::byte*> got = exchange_.take(round_.rank() + 1);
      return got ? copy(to, *got, bytes) : Status(got.error());
    }
    if (!folds_) {
      exchange_.post({});
      return {};
    }
    Result<std::byte*> slot = exchange_.open();
    if (!slot) return slot.error();
    if (Status status = copy(*slot, result, bytes); !status) return status;
    exchange_.post({round_.rank() - 1});
    return {};
  }

  Status halve() {
    if (outside_) {
      exchange_.pass(turns());
      return {};
    }
    int low = 0, high = core_;
    for (int distance = core_ / 2; distance > 0; distance /= 2) {
      const int middle = low + distance;
      const bool lower = (own_ & distance) == 0;
      const auto [given, givenBytes] = lower ? range(middle, high) : range(low, middle);
      const auto [kept, keptBytes] = lower ? range(low, middle) : range(middle, high);
      const int peer = rankOf(own_ ^ distance);
      Result<const std::byte*> got = exchange_.swap(peer, work_ + given, givenBytes, peer);
      if (!got) return got.error();
      if (Status status = partial_.merge(work_ + kept, *got, keptBytes / element_, distance == 1); !status)
        return status;
      (lower ? high : low) = middle;
    }
    return {};
  }

  Status doubleUp() {
    if (outside_) {
      exchange_.pass(turns());
      return {};
    }
    for (int distance = 1; distance < core_; distance *= 2) {
      const int low = own_ & ~(distance - 1), other = low ^ distance;
      const auto [given, givenBytes] = range(low, low + distance);
      const auto [taken, takenBytes] = range(other, other + distance);
      const int peer = rankOf(own_ ^ distance);
      Result<const std::byte*> got = exchange_.swap(peer, work_ + given, givenBytes, peer);
      if (!got) return got.error();
      if (Status status = copy(work_ + taken, *got, takenBytes); !status) return status;
    }
    return {};
  }

  int turns() const { return std::countr_zero(static_cast<unsigned>(core_)); }
  int rankOf(int member) const { return member < extra_ ? 2 * member + 1 : member + extra_; }
  std::size_t ranks() const { return static_cast<std::size_t>(round_.size()); }
  std::size_t rank() const { return static_cast<std::size_t>(round_.rank()); }

  // Where the pieces of members [low, high) stand in the vector at work, and their bytes.
  std::pair<std::size_t, std::size_t> range(int low, int high) const {
    const std::size_t from = edge(low), to = edge(high);
    return {from, to - from};
  }
  // A member's piece of one vector, or its block and that of its neighbour outside.
  std::size_t edge(int member) const {
    if (round_.operation().kind != Kind::allReduce)
      return at(static_cast<std::size_t>(member < extra_ ? 2 * member : member + extra_));
    return (member == core_ ? now_ : partOf(now_, element_, member, core_).first) * element_;
  }
  std::size_t at(std::size_t block) const { return block * now_ * element_; }
  const std::byte* input(std::size_t block) const { return send_ + (block * count_ + first_) * element_; }

  template <class Body>
  Status eachBlock(const Body& body) const {
    for (std::size_t block = 0; block < ranks(); ++block) {
      if (Status status = body(block); !status) return status;
    }
    return {};
  }
  Status copy(void* to, const void* from, std::size_t bytes) const {
    return round_.copy(to, from, bytes, Stores::ordinary);
  }

  Round& round_;
  Exchange exchange_;
  Partial partial_;
  const int core_, extra_;
  const bool folds_, outside_;
  const int own_;  // place in the core, one's own or the neighbour's
  const std::size_t element_, count_;
  const std::byte* const send_;
  std::byte* const recv_;
  std::size_t first_ = 0, now_ = 0;  // the elements at work
  std::byte* work_ = nullptr;
};

}  // namespace

Status halvingDoubling(Round& round) { return HalvingDoubling(round).run(); }

Work halvingDoublingWork(const Situation& s) {
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(s.size)));
  const bool folds = core != s.size, one = s.kind == Kind::allReduce;
  const auto whole = static_cast<std::int64_t>(s.bytes) * (one ? 1 : s.size);
  const std::int64_t pieces = (whole + std::int64_t{Exchange::kSlice} - 1) / std::int64_t{Exchange::kSlice};
  const std::int64_t way = whole / core * (core - 1);
  Work work{.barriers = 1, .copied = whole};
  for (const bool halves : {true, false}) {
    if (halves ? s.kind == Kind::allGather : s.kind == Kind::reduceScatter) continue;
    work.handoffs += pieces * std::countr_zero(static_cast<unsigned>(core));
    work.pushed += way;
    work.pulled += way;
    work.read += halves ? way : 0;
  }
  if (folds) {
    work.handoffs += 2 * pieces;
    work.pushed += whole;
    work.pulled += whole;
  }
  return work;
}

}  // namespace symccl
