// The blocks of one pool: cut from segments, best fit, split and coalesced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace symccl {

/// Blocks are multiples of this, and so are their offsets.
inline constexpr std::size_t kBlockUnit = 512;

/// Keeps the books of a pool. Offsets are the heap's, in bytes. Of the free blocks the smallest that is large enough is
/// taken, and among equals the one that became free first; never does an address decide. So equal call sequences cut
/// equal blocks. Blocks up to 1 MiB and larger ones come from segments of their own kind. Not thread-safe.
class BlockCache {
 public:
  /// `bytes`, at most a heap's size, as a block.
  static std::size_t blockBytes(std::size_t bytes);
  /// The segment to cut a block of this size from, where none has room.
  static std::size_t segmentBytes(std::size_t block);

  struct Segment {
    std::size_t offset;
    std::size_t bytes;
  };
  struct Block {
    std::size_t offset;
    std::size_t bytes;
    bool inUse;
  };

  /// A new segment that take(block) may cut from.
  void add(Segment segment, std::size_t block);
  /// A block of `block` = blockBytes() or a little more: the offset, or nothing where no free block is large enough.
  std::optional<std::size_t> take(std::size_t block);
  /// Returns the block at `offset`; its bytes, or 0 if no block that is in use starts there.
  std::size_t give(std::size_t offset);
  /// The segments without a block in use, by offset; they are forgotten here.
  std::vector<Segment> removeIdle();

  /// By offset.
  std::vector<Segment> segments() const;
  std::vector<Block> blocks(std::size_t segment) const;
  std::size_t bytesInUse() const { return inUse_; }
  std::size_t bytesReserved() const { return reserved_; }

 private:
  struct BlockState {
    std::size_t bytes;
    bool inUse;
    std::uint64_t freedAt;  ///< while free: its place in the order of frees
  };
  using Blocks = std::map<std::size_t, BlockState>;
  struct SegmentState {
    std::size_t bytes;
    bool small;
    std::size_t inUse;
    Blocks blocks;
  };
  struct FreeBlock {
    std::size_t bytes;
    std::uint64_t freedAt;
    std::size_t offset;
    auto operator<=>(const FreeBlock&) const = default;
  };
  using FreeBlocks = std::set<FreeBlock>;

  SegmentState* segmentOf(std::size_t offset);
  FreeBlocks& freeBlocks(bool small) { return small ? freeSmall_ : freeLarge_; }
  void putFree(SegmentState& segment, std::size_t offset, std::size_t bytes);
  void dropFree(SegmentState& segment, Blocks::iterator block);

  std::map<std::size_t, SegmentState> segments_;
  FreeBlocks freeSmall_, freeLarge_;
  std::uint64_t frees_ = 0;
  std::size_t inUse_ = 0, reserved_ = 0;
};

}  // namespace symccl
