#include "collectives/pipeline.hpp"

#include <algorithm>

#include "collectives/partial.hpp"

namespace symccl {

namespace {

class Pipeline {
 public:
  Pipeline(Exchange& exchange, Way way, std::span<const Lane> lanes, Carrier& carrier)
      : exchange_(exchange), carrier_(carrier), laneBytes_(Exchange::kSlice / lanes.size()) {
    for (const Lane& lane : lanes) {
      const Place& place = lane.place;
      const std::vector<int> parent(place.parent >= 0 ? 1 : 0, place.parent);
      if (way == Way::down)
        stops_.push_back({parent, place.children, place.depth, lane.slices, {}});
      else
        stops_.push_back({place.children, parent, place.height - place.depth, lane.slices, {}});
      if (lane.slices != 0) turns_ = std::max(turns_, lane.slices + static_cast<std::size_t>(place.height) - 1);
    }
  }

  Status run() {
    for (std::size_t turn = 0; turn < turns_; ++turn) {
      if (Status status = give(turn); !status) return status;
      if (Status status = take(turn); !status) return status;
    }
    return {};
  }

 private:
  // This rank in one lane. A slice passes level l in turn slice + l.
  struct Stop {
    std::vector<int> sources, targets;
    int level;
    std::size_t slices;
    std::vector<const std::byte*> got;

    bool here(std::size_t turn) const {
      const auto level_ = static_cast<std::size_t>(level);
      return turn >= level_ && turn - level_ < slices;
    }
  };

  Status give(std::size_t turn) {
    std::byte* slot = nullptr;
    readers_.clear();
    for (std::size_t lane = 0; lane < stops_.size(); ++lane) {
      Stop& stop = stops_[lane];
      if (stop.targets.empty() || !stop.here(turn)) continue;
      if (slot == nullptr) {
        Result<std::byte*> opened = exchange_.open();
        if (!opened) return opened.error();
        slot = *opened;
      }
      const std::size_t slice = turn - static_cast<std::size_t>(stop.level);
      if (Status status = carrier_.carry(lane, slice, stop.got, slot + lane * laneBytes_); !status) return status;
      readers_.insert(readers_.end(), stop.targets.begin(), stop.targets.end());
    }
    exchange_.post(readers_);
    return {};
  }

  // What comes in this turn is passed on in the next.
  Status take(std::size_t turn) {
    for (std::size_t lane = 0; lane < stops_.size(); ++lane) {
      Stop& stop = stops_[lane];
      if (stop.sources.empty() || !stop.here(turn + 1)) continue;
      stop.got.clear();
      for (const int source : stop.sources) {
        Result<const std::byte*> slice = exchange_.take(source);
        if (!slice) return slice.error();
        stop.got.push_back(*slice + lane * laneBytes_);
      }
      if (!stop.targets.empty()) continue;
      const std::size_t slice = turn + 1 - static_cast<std::size_t>(stop.level);
      if (Status status = carrier_.carry(lane, slice, stop.got, nullptr); !status) return status;
    }
    return {};
  }

  Exchange& exchange_;
  Carrier& carrier_;
  const std::size_t laneBytes_;
  std::vector<Stop> stops_;
  std::vector<int> readers_;
  std::size_t turns_ = 0;
};

/// A vector of the operation's count, a part for each tree, in slices.
class VectorCarrier : public Carrier {
 public:
  VectorCarrier(Round& round, std::span<const Place> trees) : round_(round), element_(sizeOf(round.operation().type)) {
    const int parts = static_cast<int>(trees.size());
    for (int tree = 0; tree < parts; ++tree) {
      parts_.push_back(partOf(round.operation().count, element_, tree, parts));
      const std::size_t slices = (parts_.back().count() + sliceCount() - 1) / sliceCount();
      lanes_.push_back({trees[static_cast<std::size_t>(tree)], slices});
    }
  }
  std::span<const Lane> lanes() const { return lanes_; }

 protected:
  std::size_t sliceCount() const { return kTreeSlice / element_; }
  Part slicePart(std::size_t lane, std::size_t slice) const {
    const std::size_t first = parts_[lane].first + slice * sliceCount();
    return {first, std::min(first + sliceCount(), parts_[lane].last)};
  }
  std::byte* output() const { return static_cast<std::byte*>(round_.operation().recv); }

  Round& round_;
  const std::size_t element_;

 private:
  std::vector<Part> parts_;
  std::vector<Lane> lanes_;
};

class Broadcast final : public VectorCarrier {
 public:
  Broadcast(Round& round, std::span<const Place> trees, const std::byte* source)
      : VectorCarrier(round, trees), source_(source) {}

  Status carry(std::size_t lane, std::size_t slice, std::span<const std::byte* const> got, std::byte* onward) override {
    const Part part = slicePart(lane, slice);
    const std::size_t offset = part.first * element_, bytes = part.count() * element_;
    if (got.empty()) return round_.copy(onward, source_ + offset, bytes, Stores::ordinary);
    void* const targets[] = {output() + offset, onward};
    return round_.copyToAll({targets, onward == nullptr ? 1u : 2u}, got[0], bytes, Stores::ordinary);
  }

 private:
  const std::byte* const source_;
};

class Reduce final : public VectorCarrier {
 public:
  Reduce(Round& round, std::span<const Place> trees) : VectorCarrier(round, trees), partial_(round) {}

  Status carry(std::size_t lane, std::size_t slice, std::span<const std::byte* const> got, std::byte* onward) override {
    const Part part = slicePart(lane, slice);
    const std::size_t offset = part.first * element_;
    const auto* own = static_cast<const std::byte*>(round_.operation().send) + offset;
    if (got.empty()) return partial_.begin(own, onward, part.count());
    const bool last = onward == nullptr;
    return partial_.add(own, got, {last ? output() + offset : onward}, part.count(), last);
  }

 private:
  Partial partial_;
};

}  // namespace

Status alongTrees(Exchange& exchange, Way way, std::span<const Lane> lanes, Carrier& carrier) {
  return Pipeline(exchange, way, lanes, carrier).run();
}

Status broadcastAlong(Round& round, Exchange& exchange, std::span<const Place> trees, const std::byte* source) {
  Broadcast carrier(round, trees, source);
  return alongTrees(exchange, Way::down, carrier.lanes(), carrier);
}

Status reduceAlong(Round& round, Exchange& exchange, std::span<const Place> trees) {
  Reduce carrier(round, trees);
  return alongTrees(exchange, Way::up, carrier.lanes(), carrier);
}

Status runAlong(Round& round, std::span<const Place> trees) {
  const Operation& operation = round.operation();
  Exchange exchange(round);
  const void* source = operation.send;
  if (operation.kind != Kind::broadcast) {
    if (Status status = reduceAlong(round, exchange, trees); !status) return status;
    source = operation.recv;
  }
  if (operation.kind != Kind::reduce) {
    if (Status status = broadcastAlong(round, exchange, trees, static_cast<const std::byte*>(source)); !status)
      return status;
  }
  return exchange.finish();
}

Work alongTreesWork(const Situation& s, int height, int children, int trees) {
  const auto n = static_cast<std::int64_t>(s.bytes) / trees;
  const std::int64_t slice = std::min<std::int64_t>(n, kTreeSlice);
  const std::int64_t turns = (n + kTreeSlice - 1) / std::int64_t{kTreeSlice} + height - 1;
  const std::int64_t bytes = slice * turns;
  Work work{.barriers = 1};
  if (s.kind != Kind::broadcast) {
    work.handoffs += turns;
    work.pulled += bytes;
    work.read += bytes;
    work.readPeer += (children - 1) * bytes;
    work.pushed += (trees - 1) * bytes;
  }
  if (s.kind != Kind::reduce) {
    work.handoffs += turns;
    work.pulled += trees * bytes;
    work.pushed += bytes;
    work.read -= bytes;
  }
  return work;
}

}  // namespace symccl
