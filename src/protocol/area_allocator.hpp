// Control areas: where they come from and when they may be used again. docs/protocol.md, section 6.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "memory/heap.hpp"
#include "protocol/group.hpp"
#include "symccl/result.hpp"

namespace symccl {

/// The areas of one heap. Each holds nothing but control areas of one size class (powers of two in members) for ever,
/// because a slow member may still look at the header of one that was retired. Thread-safe; never waits for a peer.
class AreaAllocator {
 public:
  static AreaAllocator& of(Heap& heap);

  /// The offset of a zeroed area for `members` members, its lines backed by pages, staging not.
  Result<std::size_t> take(int members);
  /// Gives back an area of which no member ever knew.
  void giveBack(std::size_t offset, int members);
  /// Gives back an area of `epoch` whose owner has closed it: it is used again once every member has closed its own,
  /// has used it again, or is dead.
  void retire(std::size_t offset, const Uuid& epoch, std::vector<MemberPlace> members);

 private:
  struct Retired {
    std::size_t offset;
    Uuid epoch;
    std::vector<MemberPlace> members;
  };
  explicit AreaAllocator(Heap& heap) : heap_(heap) {}
  static int sizeClass(int members);
  static std::size_t bytesOf(int sizeClass) { return AreaLayout(sizeClass).bytes; }
  static bool quiet(const Retired& area);
  void sweep();

  Heap& heap_;
  std::mutex mutex_;
  std::map<int, std::vector<std::size_t>> free_;  // by size class; guarded by mutex_
  std::vector<Retired> limbo_;                    // guarded by mutex_
};

}  // namespace symccl
