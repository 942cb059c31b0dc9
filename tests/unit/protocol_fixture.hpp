// Groups made by hand: the ranks of a communicator as threads of one process, without store, links or communicator.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/barrier.hpp"
#include "base/host.hpp"
#include "memory/heap.hpp"
#include "memory/mapped_heap.hpp"
#include "peers/links.hpp"
#include "protocol/control_area.hpp"
#include "protocol/group.hpp"

namespace symccl::test {

/// Runs `body(rank)` on `size` threads and joins them.
template <class Body>
void onRanks(int size, const Body& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

struct GroupOptions {
  std::string name = "test";
  bool fences = false;  ///< always on where this process could not register for membarrier
  int cpus = availableCpus();
  bool otherMapping = false;  ///< ranks see each other's areas through a second mapping of the heap, as processes would
};

/// One Group per rank, all areas zeroed and in the heap of `ordinal`.
class GroupRanks {
 public:
  explicit GroupRanks(int size, const GroupOptions& options = {}, int ordinal = 0) : heap_(heapOf(ordinal)) {
    const AreaLayout layout(size);
    const Uuid epoch = randomUuid();
    std::byte* others = heap_.base();
    if (options.otherMapping) {
      auto mapped = MappedHeap::map(FileDescriptor(::fcntl(heap_.descriptor(), F_DUPFD_CLOEXEC, 3)), heap_.id(),
                                    heap_.ordinal(), heap_.bytes());
      if (!mapped) fail(mapped.error());
      static std::vector<std::unique_ptr<MappedHeap>>& kept = *new std::vector<std::unique_ptr<MappedHeap>>;
      kept.push_back(std::move(*mapped));  // never unmapped
      mapped_ = kept.back().get();
      others = mapped_->base();
    }
    for (int rank = 0; rank < size; ++rank) {
      auto area = heap_.reserve(layout.bytes, Backing::sparse);
      if (!area) fail(area.error());
      areas_.push_back(*area);
      ControlArea(heap_.base() + *area, size).front().header.write(epoch, rank, size, layout.bytes);
      peers_.push_back(std::make_unique<Peer>(ProcessEntry::ofThisProcess(), true, static_cast<int>(::getpid())));
    }
    for (int rank = 0; rank < size; ++rank) {
      std::vector<MemberPlace> members;
      for (int member = 0; member < size; ++member) {
        const bool own = member == rank;
        members.push_back({peers_[static_cast<std::size_t>(member)].get(), own ? heap_.base() : others, heap_.bytes(),
                           own ? nullptr : mapped_, heap_.symmetric(), areas_[static_cast<std::size_t>(member)]});
      }
      Group::Identity identity{options.name, rank, size, epoch, options.fences || !membarrierRegistered(),
                               options.cpus};
      groups_.push_back(std::make_unique<Group>(std::move(identity), heap_, std::move(members)));
    }
  }
  ~GroupRanks() {
    groups_.clear();
    for (std::size_t area : areas_) heap_.release(area);
  }
  GroupRanks(const GroupRanks&) = delete;
  GroupRanks& operator=(const GroupRanks&) = delete;

  int size() const { return static_cast<int>(groups_.size()); }
  Group& operator[](int rank) { return *groups_[static_cast<std::size_t>(rank)]; }
  Heap& heap() { return heap_; }

  /// For all others, the process of `rank` has died.
  void markGone(int rank) {
    const_cast<std::atomic<bool>&>(peers_[static_cast<std::size_t>(rank)]->gone())
        .store(true, std::memory_order_release);
    for (auto& group : groups_) group->wakeOwn();
  }

 private:
  [[noreturn]] static void fail(const Error& error) {
    ADD_FAILURE() << error.message();
    std::abort();
  }
  static Heap& heapOf(int ordinal) {
    Result<Heap*> heap = Heap::ofDevice(ordinal);
    if (!heap) fail(heap.error());
    return **heap;
  }

  Heap& heap_;
  MappedHeap* mapped_ = nullptr;
  std::vector<std::size_t> areas_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace symccl::test
