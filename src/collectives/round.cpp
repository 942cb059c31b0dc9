#include "collectives/round.hpp"

#include <algorithm>
#include <atomic>
#include <optional>

#include "base/environment.hpp"
#include "collectives/thread_team.hpp"

namespace symccl {

namespace {

// Between two looks at the error words.
constexpr std::size_t kBlockBytes = 256 << 10;

// A thread that helps takes some microseconds to wake: from here on it is worth it.
constexpr std::size_t kThreadBytes = std::size_t{1} << 20;
constexpr std::size_t kMostThreads = 64;

}  // namespace

Part partOf(std::size_t count, std::size_t elementBytes, int rank, int size) {
  const std::size_t grain = std::max<std::size_t>(kLine / elementBytes, 1);
  const std::size_t grains = (count + grain - 1) / grain;
  const auto edge = [&](int index) {
    const auto share =
        static_cast<unsigned __int128>(grains) * static_cast<unsigned>(index) / static_cast<unsigned>(size);
    return std::min(static_cast<std::size_t>(share) * grain, count);
  };
  return {edge(rank), edge(rank + 1)};
}

namespace {

// SYMCCL_STORES, if it asks for one kind.
std::optional<Stores> askedStores() {
  const std::string& asked = environment().stores;
  if (asked == "auto") return std::nullopt;
  return asked == "streaming" ? Stores::streaming : Stores::ordinary;
}

}  // namespace

Round::TimedStores::TimedStores(Round& round, Outputs outputs, std::size_t bytes)
    : tuner_(outputs == Outputs::peers ? round.moving_.toPeers : round.moving_.toOwn),
      kind_(round.operation().kind),
      bytes_(bytes),
      timed_(StoreTuner::tunes(bytes) && !askedStores()),
      stores_(timed_ ? tuner_.choose(kind_, bytes)
                     : askedStores().value_or(bytes < StoreTuner::kLeast ? Stores::ordinary : Stores::streaming)) {}

Round::TimedStores::~TimedStores() {
  if (timed_) tuner_.took(kind_, bytes_, stores_, Deadline::Clock::now() - start_);
}

Status Round::stepAll() {
  step();
  return awaitAll();
}

Status Round::copy(void* destination, const void* source, std::size_t bytes, Stores stores) {
  if (destination == source) return {};
  return copyToAll({&destination, 1}, source, bytes, stores);
}

// Calls move(addresses, first, count) for blocks of the elements, on as many threads as are worth it, with a look at
// the error words between two blocks.
template <class Move>
Status Round::inBlocks(std::size_t count, std::size_t elementBytes, const Move& move) {
  const std::size_t block = kBlockBytes / elementBytes;
  const auto worth = static_cast<int>(std::min<std::size_t>(count / (kThreadBytes / elementBytes), kMostThreads));
  const int threads = std::clamp(worth, 1, moving_.threads);
  if (scratch_.blocks.size() < static_cast<std::size_t>(threads))
    scratch_.blocks.resize(static_cast<std::size_t>(threads));
  std::atomic<bool> ended{false};
  const auto movePart = [&](int index) {
    const Part part = partOf(count, elementBytes, index, threads);
    for (std::size_t first = part.first; first < part.last && !ended.load(std::memory_order_relaxed); first += block) {
      const std::size_t now = std::min(block, part.last - first);
      if (moving_.givesWay) givingWay_.pause();
      move(scratch_.blocks[static_cast<std::size_t>(index)], first, now);
      if (first + now < part.last && !interrupted()) ended.store(true, std::memory_order_relaxed);
    }
  };
  threads == 1 ? movePart(0) : ThreadTeam::ofProcess().run(threads, movePart);
  return ended.load(std::memory_order_relaxed) ? interrupted() : Status();
}

Status Round::copyToAll(std::span<void* const> destinations, const void* source, std::size_t bytes, Stores stores) {
  traffic_.loaded += bytes;
  traffic_.stored += bytes * destinations.size();
  return inBlocks(bytes, 1, [&](Scratch::Addresses& block, std::size_t first, std::size_t now) {
    block.destinations.clear();
    for (void* destination : destinations) block.destinations.push_back(static_cast<std::byte*>(destination) + first);
    symccl::copyToAll(block.destinations, static_cast<const std::byte*>(source) + first, now, stores);
  });
}

const double* Round::factors() {
  if (operation().op != ReduceOp::premulSum) return nullptr;
  if (!factorsReady_) {
    scratch_.factors.clear();
    for (const Call& call : layout.calls()) scratch_.factors.push_back(call.factor);
    factorsReady_ = true;
  }
  return scratch_.factors.data();
}

Status Round::reduce(std::span<const void* const> sources, std::span<void* const> destinations, std::size_t count,
                     Stores stores) {
  return reduce({operation().type, operation().op, sources, destinations, count, factors(), stores});
}

Status Round::reduce(const Reduction& whole) {
  const std::size_t element = sizeOf(whole.type);
  traffic_.loaded += whole.count * element * whole.sources.size();
  traffic_.stored += whole.count * element * whole.destinations.size();
  return inBlocks(whole.count, element, [&](Scratch::Addresses& block, std::size_t first, std::size_t now) {
    const std::size_t offset = first * element;
    block.sources.clear();
    block.destinations.clear();
    for (const void* source : whole.sources) block.sources.push_back(static_cast<const std::byte*>(source) + offset);
    for (void* target : whole.destinations) block.destinations.push_back(static_cast<std::byte*>(target) + offset);
    symccl::reduce({whole.type, whole.op, block.sources, block.destinations, now, whole.factors, whole.stores});
  });
}

void Round::populate(int peer, const void* address, std::size_t bytes) const {
  const MemberPlace& place = group_.place(peer);
  if (place.mapped == nullptr || bytes == 0) return;
  place.mapped->populate(static_cast<std::size_t>(static_cast<const std::byte*>(address) - place.heapBase), bytes);
}

}  // namespace symccl
