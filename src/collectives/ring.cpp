// Ring, in message form: all-reduce, reduce-scatter, all-gather around it; broadcast and reduce along it, in slices.
//
// Cost: reduce-scatter and all-gather (p-1) alpha + beta (p-1)/p N, all-reduce twice that: the least bytes that any
// rank can give. Broadcast and reduce with s slices (s + p - 2) (alpha + beta N/s).
// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009.

#include <algorithm>

#include "collectives/algorithms.hpp"
#include "collectives/partial.hpp"
#include "collectives/pipeline.hpp"

namespace symccl {

namespace {

class RingBlocks {
 public:
  explicit RingBlocks(Round& round)
      : round_(round),
        exchange_(round),
        partial_(round),
        element_(sizeOf(round.operation().type)),
        count_(round.operation().count),
        send_(static_cast<const std::byte*>(round.operation().send)),
        recv_(static_cast<std::byte*>(round.operation().recv)) {}

  Status run() {
    const std::size_t blockCount = Exchange::kSlice / element_;
    const std::size_t step = oneVector() ? blockCount * static_cast<std::size_t>(round_.size()) : blockCount;
    for (std::size_t first = 0; first < count_; first += step) {
      now_ = {first, std::min(first + step, count_)};
      if (Status status = pieces(); !status) return status;
    }
    return exchange_.finish();
  }

 private:
  Status pieces() {
    switch (round_.operation().kind) {
      case Kind::allReduce: {
        const int own = wrapped(round_.rank() + 1);
        if (Status status = scatter(own); !status) return status;
        Result<std::byte*> slot = exchange_.open();
        if (!slot) return slot.error();
        if (Status status = finish(own, {*slot, output(own)}); !status) return status;
        return spread(own);
      }
      case Kind::reduceScatter:
        if (Status status = scatter(round_.rank()); !status) return status;
        return finish(round_.rank(), {recv_ + now_.first * element_});
      default: {
        const int own = round_.rank();
        Result<std::byte*> slot = exchange_.open();
        if (!slot) return slot.error();
        void* const targets[] = {*slot, output(own)};
        if (Status status = round_.copyToAll(targets, send_ + now_.first * element_, bytes(own), Stores::ordinary);
            !status)
          return status;
        return spread(own);
      }
    }
  }

  // Each block travels round the ring and collects a rank's input at each stop; the one of `own` arrives last, all but
  // combined with this rank's input.
  Status scatter(int own) {
    for (int turn = 0; turn < round_.size() - 1; ++turn) {
      const int block = wrapped(own - 1 - turn);
      Result<std::byte*> slot = exchange_.open();
      if (!slot) return slot.error();
      Status status = turn == 0 ? partial_.begin(input(block), *slot, count(block))
                                : partial_.add(input(block), {&got_, 1}, {*slot}, count(block), false);
      if (!status) return status;
      if (status = turnOver(); !status) return status;
    }
    return {};
  }
  Status finish(int own, std::initializer_list<void*> to) {
    return partial_.add(input(own), {&got_, 1}, to, count(own), true);
  }

  // The block of `own` stands in the open slice; every other one comes by.
  Status spread(int own) {
    for (int turn = 0; turn < round_.size() - 1; ++turn) {
      if (Status status = turnOver(); !status) return status;
      const int block = wrapped(own - 1 - turn);
      void* targets[] = {output(block), nullptr};
      const bool onward = turn < round_.size() - 2;
      if (onward) {
        Result<std::byte*> slot = exchange_.open();
        if (!slot) return slot.error();
        targets[1] = *slot;
      }
      if (Status status = round_.copyToAll({targets, onward ? 2u : 1u}, got_, bytes(block), Stores::ordinary); !status)
        return status;
    }
    return {};
  }

  Status turnOver() {
    exchange_.post({wrapped(round_.rank() + 1)});
    Result<const std::byte*> got = exchange_.take(wrapped(round_.rank() - 1));
    if (!got) return got.error();
    got_ = *got;
    return {};
  }

  int wrapped(int rank) const { return (rank + 2 * round_.size()) % round_.size(); }
  // The blocks are parts of one vector of `count` elements; else they are vectors of `count` elements themselves.
  bool oneVector() const { return round_.operation().kind == Kind::allReduce; }
  // Elements of a block in its vector.
  Part part(int block) const {
    if (!oneVector()) return now_;
    const Part part = partOf(now_.count(), element_, block, round_.size());
    return {now_.first + part.first, now_.first + part.last};
  }
  std::size_t count(int block) const { return part(block).count(); }
  std::size_t bytes(int block) const { return count(block) * element_; }
  std::size_t offset(int block) const {
    return ((oneVector() ? 0 : static_cast<std::size_t>(block) * count_) + part(block).first) * element_;
  }
  const std::byte* input(int block) const { return send_ + offset(block); }
  std::byte* output(int block) const { return recv_ + offset(block); }

  Round& round_;
  Exchange exchange_;
  Partial partial_;
  const std::size_t element_, count_;
  const std::byte* const send_;
  std::byte* const recv_;
  Part now_{};
  const std::byte* got_ = nullptr;
};

}  // namespace

Status ring(Round& round) {
  const Operation& operation = round.operation();
  if (operation.kind != Kind::broadcast && operation.kind != Kind::reduce) return RingBlocks(round).run();
  const Place place = chain(round.rank(), operation.root, round.size());
  return runAlong(round, {&place, 1});
}

Work ringWork(const Situation& s) {
  const auto n = static_cast<std::int64_t>(s.bytes);
  const std::int64_t peers = s.size - 1, slice = Exchange::kSlice;
  switch (s.kind) {
    case Kind::allReduce: {
      const std::int64_t block = n / s.size, pieces = (block + slice - 1) / slice;
      return {.barriers = 1, .handoffs = 2 * peers * pieces, .pushed = peers * block, .pulled = 2 * peers * block};
    }
    case Kind::reduceScatter:
      return {.barriers = 1,
              .handoffs = peers * ((n + slice - 1) / slice),
              .pushed = n,
              .pulled = peers * n,
              .read = peers * n};
    case Kind::allGather:
      return {.barriers = 1,
              .handoffs = peers * ((n + slice - 1) / slice),
              .copied = n,
              .pushed = peers * n,
              .pulled = peers * n,
              .read = -peers * n};
    default:
      return alongTreesWork(s, s.size - 1, 1, 1);
  }
}

}  // namespace symccl
