#include "base/checks.hpp"
#include "peers/links_state.hpp"

namespace symccl {

Result<Links::Mapping> Links::exchangeHeaps(Peer& peer, Heap& mine, const Uuid& id, Deadline deadline,
                                            const std::function<Status()>& interrupted) {
  State& state = *state_;
  if (Status status = state.usable(); !status) return status.error();
  if (mine.inherited()) return Error(Code::forked, "the heap belongs to the parent process");
  std::unique_lock lock(state.mutex);
  State::Link* link = state.find(peer.entry().process);
  if (!link) return internalError("a peer without a link");
  if (peer.self()) return state.ownHeap(lock, *link, mine, id, deadline, interrupted);

  if (link->offered.insert(mine.id()).second) {
    const frames::HeapFrame offer{mine.id(), static_cast<std::uint32_t>(mine.ordinal()), mine.bytes()};
    if (Status status = state.enqueue(*link, frames::encode(offer), mine.descriptor()); !status) {
      link->offered.erase(mine.id());
      return status.error();
    }
  }
  const auto about = [&] { return "heap of " + pidText(peer.entry_, peer.pidHere_); };
  for (;;) {
    if (const auto at = link->heaps.find(id); at != link->heaps.end()) {
      State::RemoteHeap& heap = at->second;
      if (heap.failed) return heap.failed->in(about());
      if (MappedHeap* mapped = heap.mapped.get()) {
        return Mapping{mapped->base(), mapped->bytes(), mapped->symmetric(), mapped};
      }
      if (!heap.mapping) {
        state.mapHeap(lock, heap);
        continue;
      }
    }
    if (peer.gone()) return state.goneError(*link);
    const Status waited =
        state.waitForChange(lock, deadline, interrupted, peer.entry_, peer.pidHere_, "it did not send its heap");
    if (!waited) return waited.error();
  }
}

// Ranks that are threads of this process: each passes its own heap and gets another's.
Result<Links::Mapping> Links::State::ownHeap(std::unique_lock<std::mutex>& lock, Link& link, Heap& mine, const Uuid& id,
                                             Deadline deadline, const Interrupted& interrupted) {
  if (link.ownHeaps.emplace(mine.id(), &mine).second) changed.notify_all();
  for (;;) {
    if (const auto at = link.ownHeaps.find(id); at != link.ownHeaps.end()) {
      const Heap& heap = *at->second;
      return Mapping{heap.base(), heap.bytes(), heap.symmetric(), nullptr};
    }
    const Status waited = waitForChange(lock, deadline, interrupted, self, static_cast<int>(self.pid),
                                        "no other thread of it came with that heap");
    if (!waited) return waited.error();
  }
}

void Links::State::mapHeap(std::unique_lock<std::mutex>& lock, RemoteHeap& heap) {
  heap.mapping = true;
  FileDescriptor memory = std::move(heap.memory);
  const frames::HeapFrame offer = heap.offer;
  lock.unlock();
  Result<std::unique_ptr<MappedHeap>> mapped = [&]() -> Result<std::unique_ptr<MappedHeap>> {
    if (!memory) {
      return Error(Code::system,
                   "this process had no file descriptor left to receive it; `ulimit -n` raises the limit");
    }
    if (offer.ordinal >= static_cast<std::uint32_t>(kDevices)) {
      return Error(Code::corrupt,
                   text("it came as that of device ", offer.ordinal, "; devices are 0 to ", kDevices - 1));
    }
    return MappedHeap::map(std::move(memory), offer.id, static_cast<int>(offer.ordinal), offer.bytes);
  }();
  lock.lock();
  heap.mapping = false;
  if (mapped) {
    heap.mapped = std::move(*mapped);
  } else {
    heap.failed = mapped.error();
  }
  changed.notify_all();
}

}  // namespace symccl
