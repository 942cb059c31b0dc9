#include "memory/block_cache.hpp"

#include "memory/granules.hpp"

namespace symccl {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr std::size_t kSmallBlock = kMebibyte;  // the largest that comes from small segments
constexpr std::size_t kSmallSegment = 2 * kMebibyte;
constexpr std::size_t kMediumBlock = 10 * kMebibyte;  // the largest that shares a segment of fixed size
constexpr std::size_t kMediumSegment = 20 * kMebibyte;

bool isSmall(std::size_t block) { return block <= kSmallBlock; }

// What is left of a large block is worth a block of its own only if a large request can use it.
bool worthKeeping(std::size_t rest, bool small) { return small ? rest >= kBlockUnit : rest > kSmallBlock; }

}  // namespace

std::size_t BlockCache::blockBytes(std::size_t bytes) { return roundUp(bytes, kBlockUnit); }

std::size_t BlockCache::segmentBytes(std::size_t block) {
  if (isSmall(block)) return kSmallSegment;
  return block <= kMediumBlock ? kMediumSegment : roundUp(block, kGranule);
}

void BlockCache::add(Segment segment, std::size_t block) {
  SegmentState& state = segments_[segment.offset];
  state = {segment.bytes, isSmall(block), 0, {}};
  reserved_ += segment.bytes;
  putFree(state, segment.offset, segment.bytes);
}

std::optional<std::size_t> BlockCache::take(std::size_t block) {
  const bool small = isSmall(block);
  const FreeBlocks& candidates = freeBlocks(small);
  const auto best = candidates.lower_bound({block, 0, 0});
  if (best == candidates.end()) return std::nullopt;

  const std::size_t offset = best->offset, bytes = best->bytes;
  SegmentState& segment = *segmentOf(offset);
  dropFree(segment, segment.blocks.find(offset));
  const std::size_t cut = worthKeeping(bytes - block, small) ? block : bytes;
  if (cut < bytes) putFree(segment, offset + cut, bytes - cut);
  segment.blocks[offset] = {cut, true, 0};
  segment.inUse += cut;
  inUse_ += cut;
  return offset;
}

std::size_t BlockCache::give(std::size_t offset) {
  SegmentState* segment = segmentOf(offset);
  if (!segment) return 0;
  const auto block = segment->blocks.find(offset);
  if (block == segment->blocks.end() || !block->second.inUse) return 0;
  const std::size_t bytes = block->second.bytes;
  segment->inUse -= bytes;
  inUse_ -= bytes;

  std::size_t first = offset, merged = bytes;
  const auto next = std::next(block);
  if (next != segment->blocks.end() && !next->second.inUse) {
    merged += next->second.bytes;
    dropFree(*segment, next);
  }
  if (block != segment->blocks.begin()) {
    const auto previous = std::prev(block);
    if (!previous->second.inUse) {
      first = previous->first;
      merged += previous->second.bytes;
      dropFree(*segment, previous);
    }
  }
  segment->blocks.erase(block);
  putFree(*segment, first, merged);
  return bytes;
}

std::vector<BlockCache::Segment> BlockCache::removeIdle() {
  std::vector<Segment> removed;
  for (auto at = segments_.begin(); at != segments_.end();) {
    SegmentState& segment = at->second;
    if (segment.inUse > 0) {
      ++at;
      continue;
    }
    dropFree(segment, segment.blocks.begin());  // coalesced: the only block
    reserved_ -= segment.bytes;
    removed.push_back({at->first, segment.bytes});
    at = segments_.erase(at);
  }
  return removed;
}

std::vector<BlockCache::Segment> BlockCache::segments() const {
  std::vector<Segment> all;
  for (const auto& [offset, segment] : segments_) all.push_back({offset, segment.bytes});
  return all;
}

std::vector<BlockCache::Block> BlockCache::blocks(std::size_t segment) const {
  std::vector<Block> all;
  if (const auto at = segments_.find(segment); at != segments_.end()) {
    for (const auto& [offset, block] : at->second.blocks) all.push_back({offset, block.bytes, block.inUse});
  }
  return all;
}

BlockCache::SegmentState* BlockCache::segmentOf(std::size_t offset) {
  auto after = segments_.upper_bound(offset);
  if (after == segments_.begin()) return nullptr;
  const auto at = std::prev(after);
  return offset - at->first < at->second.bytes ? &at->second : nullptr;
}

void BlockCache::putFree(SegmentState& segment, std::size_t offset, std::size_t bytes) {
  const std::uint64_t now = ++frees_;
  segment.blocks[offset] = {bytes, false, now};
  freeBlocks(segment.small).insert({bytes, now, offset});
}

void BlockCache::dropFree(SegmentState& segment, Blocks::iterator block) {
  freeBlocks(segment.small).erase({block->second.bytes, block->second.freedAt, block->first});
  segment.blocks.erase(block);
}

}  // namespace symccl
