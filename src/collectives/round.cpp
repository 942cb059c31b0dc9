#include "collectives/round.hpp"

#include <algorithm>
#include <array>

#include "base/environment.hpp"

namespace symccl {

namespace {

// Between two looks at the error words.
constexpr std::size_t kBlockBytes = 256 << 10;

// Above, outputs leave the caches before they are read again.
constexpr std::size_t kStreamFrom = std::size_t{4} << 20;

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

Stores Round::storesFor(std::size_t bytes) {
  const std::string& asked = environment().stores;
  const bool streaming = asked == "auto" ? bytes >= kStreamFrom : asked == "streaming";
  return streaming ? Stores::streaming : Stores::ordinary;
}

Status Round::stepAll() {
  step();
  return awaitAll();
}

Status Round::copy(void* destination, const void* source, std::size_t bytes, Stores stores) {
  if (destination == source) return {};
  return copyToAll({&destination, 1}, source, bytes, stores);
}

Status Round::copyToAll(std::span<void* const> destinations, const void* source, std::size_t bytes, Stores stores) {
  auto& block = scratch_.destinations;
  for (std::size_t done = 0; done < bytes; done += kBlockBytes) {
    const std::size_t now = std::min(kBlockBytes, bytes - done);
    const auto* from = static_cast<const std::byte*>(source) + done;
    if (destinations.size() == 1) {
      symccl::copy(static_cast<std::byte*>(destinations[0]) + done, from, now, stores);
    } else {
      block.clear();
      for (void* destination : destinations) block.push_back(static_cast<std::byte*>(destination) + done);
      symccl::copyToAll(block, from, now, stores);
    }
    traffic_.loaded += now;
    traffic_.stored += now * destinations.size();
    if (now < bytes) {
      if (Status status = interrupted(); !status) return status;
    }
  }
  return {};
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
  const std::size_t block = kBlockBytes / element;
  std::vector<const void*>& from = scratch_.sources;
  std::vector<void*>& to = scratch_.destinations;
  for (std::size_t done = 0; done < whole.count; done += block) {
    const std::size_t now = std::min(block, whole.count - done);
    const std::size_t offset = done * element;
    from.clear();
    to.clear();
    for (const void* source : whole.sources) from.push_back(static_cast<const std::byte*>(source) + offset);
    for (void* destination : whole.destinations) to.push_back(static_cast<std::byte*>(destination) + offset);
    symccl::reduce({whole.type, whole.op, from, to, now, whole.factors, whole.stores});
    traffic_.loaded += now * element * from.size();
    traffic_.stored += now * element * to.size();
    if (now < whole.count) {
      if (Status status = interrupted(); !status) return status;
    }
  }
  return {};
}

void Round::populate(int peer, const void* address, std::size_t bytes) const {
  const MemberPlace& place = group_.place(peer);
  if (place.mapped == nullptr || bytes == 0) return;
  place.mapped->populate(static_cast<std::size_t>(static_cast<const std::byte*>(address) - place.heapBase), bytes);
}

}  // namespace symccl
