#include "p2p/matching.hpp"

#include <algorithm>

namespace symccl {

void PostedReceives::add(OpenMessage receive) {
  const int source = receive.message.peer;
  auto& list = source == kAnySource ? anySource_ : bySource_[static_cast<std::size_t>(source)];
  list.push_back(std::move(receive));
}

std::optional<OpenMessage> PostedReceives::match(int source, std::uint64_t tag) {
  const auto accepts = [&](const OpenMessage& receive) {
    return receive.message.tag == kAnyTag || static_cast<std::uint64_t>(receive.message.tag) == tag;
  };
  auto& named = bySource_[static_cast<std::size_t>(source)];
  const auto first = std::ranges::find_if(named, accepts);
  const auto firstAny = std::ranges::find_if(anySource_, accepts);
  const bool haveNamed = first != named.end();
  const bool haveAny = firstAny != anySource_.end();
  if (!haveNamed && !haveAny) return std::nullopt;
  const bool takeNamed = haveNamed && (!haveAny || first->number < firstAny->number);
  auto& list = takeNamed ? named : anySource_;
  const auto taken = takeNamed ? first : firstAny;
  std::optional<OpenMessage> receive = std::move(*taken);
  list.erase(taken);
  return receive;
}

void PostedReceives::clear() {
  for (auto& list : bySource_) list.clear();
  anySource_.clear();
}

void UnexpectedMessages::add(const Arrival& arrival) {
  bySource_[static_cast<std::size_t>(arrival.source)].push_back({arrival, arrivals_++});
}

UnexpectedMessages::Position UnexpectedMessages::find(std::list<Held>& list, int tag) {
  if (tag == kAnyTag) return list.begin();
  return std::ranges::find_if(
      list, [&](const Held& held) { return held.arrival.record.tag == static_cast<std::uint32_t>(tag); });
}

std::optional<Arrival> UnexpectedMessages::match(int source, int tag) {
  std::list<Held>* best = nullptr;
  Position position;
  const auto consider = [&](std::list<Held>& list) {
    const Position found = find(list, tag);
    if (found == list.end() || (best != nullptr && found->order > position->order)) return;
    best = &list;
    position = found;
  };
  if (source == kAnySource) {
    for (auto& list : bySource_) consider(list);
  } else {
    consider(bySource_[static_cast<std::size_t>(source)]);
  }
  if (best == nullptr) return std::nullopt;
  const Arrival arrival = position->arrival;
  best->erase(position);
  return arrival;
}

void UnexpectedMessages::clear() {
  for (auto& list : bySource_) list.clear();
}

}  // namespace symccl
