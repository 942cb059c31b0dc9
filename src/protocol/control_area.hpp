// The control area: every line that a member of a communicator shows to the others. docs/protocol.md, section 1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host.hpp"
#include "base/shared_word.hpp"
#include "base/wait.hpp"

namespace symccl {

inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kInlineBytes = 48;   ///< most payload in an announcement
inline constexpr std::size_t kEagerBytes = 4096;  ///< an eager slot; offers of exactly this size go to the buffers
inline constexpr std::size_t kStagingSlot = 1 << 20;
inline constexpr int kRingRecords = 32;
inline constexpr int kEagerMessages = 8;  ///< point-to-point eager slots per peer, of kEagerBytes each
inline constexpr int kPipes = 4;          ///< point-to-point pipes of two halves
inline constexpr std::size_t kPipeHalf = 256 << 10;
inline constexpr int kFlatMembers = 16;  ///< above, arrival goes through group lines
inline constexpr int kMostMembers = 1024;

/// Never changes while the area belongs to an epoch. Words, because a slow member may look while the area is used
/// again.
struct AreaHeader {
  SharedWord<std::uint64_t> layout;    ///< kAreaLayout
  SharedWord<std::uint64_t> epoch[2];  ///< this communicator instance
  SharedWord<std::uint64_t> rank, members, bytes;

  void write(const Uuid& instance, int ownRank, int size, std::size_t areaBytes);
  bool shows(const Uuid& instance) const {
    return epoch[0].read() == instance.words[0] && epoch[1].get() == instance.words[1];
  }
};

/// An announcement, or a group line. Words 1-7 are written in any order, then word 0 is published.
struct alignas(kLine) AnnouncementLine {
  SharedWord<std::uint64_t> sequence;
  SharedWord<std::uint64_t> words[7];
};

/// One record of a point-to-point ring. Word 0 is published last.
struct alignas(kLine) RingRecord {
  SharedWord<std::uint64_t> sequence;
  SharedWord<std::uint64_t> words[7];
};

/// One direction to one peer. `consumed` is written by the area's owner: how many records of that peer's ring to it it
/// has taken.
struct Ring {
  alignas(kLine) SharedWord<std::uint64_t> consumed;
  alignas(2 * kLine) RingRecord records[kRingRecords];
};

/// What one member sends to and expects from one peer in a v kind. Locations are heap offsets or kPrivate.
struct TableEntry {
  SharedWord<std::uint64_t> sendBytes, sendLocation, recvBytes, recvLocation;
};
inline constexpr std::uint64_t kPrivate = ~std::uint64_t{0};

/// The fixed part. Lines that different events touch are 128 B apart, because neighbours are prefetched in pairs.
struct AreaFront {
  AreaHeader header;
  alignas(2 *
          kLine) SharedWord<std::uint64_t> closed;  ///< 1: the owner touches no member on behalf of this epoch any more
  struct alignas(2 * kLine) SpacedLine {
    AnnouncementLine line;
  };
  SpacedLine announcements[2];  ///< by parity of the operation
  SpacedLine groups[2];
  alignas(2 * kLine) SharedWord<std::uint64_t> steps;  ///< cumulative over all operations
  struct alignas(2 * kLine) BellLine {
    Bell bell;
    ErrorWords errors;
  };
  BellLine collective;
  alignas(2 * kLine) Bell pointToPoint;
};
static_assert(sizeof(Bell) == 8 && sizeof(ErrorWords) == 24 && sizeof(TableEntry) == 32);
static_assert(offsetof(AreaFront, closed) == 0x080 && offsetof(AreaFront, announcements) == 0x100);
static_assert(offsetof(AreaFront, groups) == 0x200 && offsetof(AreaFront, steps) == 0x300);
static_assert(offsetof(AreaFront, collective) == 0x380 && offsetof(AreaFront, pointToPoint) == 0x400);
static_assert(sizeof(Ring) == 128 + kRingRecords * kLine);

/// Where things stand in the area of a communicator with `members` members; the same on every rank.
struct AreaLayout {
  explicit constexpr AreaLayout(int members)
      : eager(0x1000),
        tables(0x3000),
        rings(align(tables + 2 * static_cast<std::size_t>(members) * sizeof(TableEntry), 2 * kLine)),
        staging(align(rings + static_cast<std::size_t>(members) * sizeof(Ring), 4096)),
        messages(staging + 3 * kStagingSlot),
        pipes(messages + static_cast<std::size_t>(members) * kEagerMessages * kEagerBytes),
        bytes(pipes + kPipes * 2 * kPipeHalf) {}

  std::size_t eager;     ///< two slots, by parity
  std::size_t tables;    ///< two tables of `members` entries, by parity
  std::size_t rings;     ///< one per peer
  std::size_t staging;   ///< two input slots and a result slot; pages reserved before the first write
  std::size_t messages;  ///< point-to-point eager slots: kEagerMessages per peer; likewise
  std::size_t pipes;     ///< likewise
  std::size_t bytes;

 private:
  static constexpr std::size_t align(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }
};

/// Changes whenever the layout or a limit that the forms depend on does.
inline constexpr std::uint64_t kAreaLayout =
    0x53594d43434c0001ull ^ (kInlineBytes << 8) ^ (kEagerBytes << 16) ^ (kStagingSlot << 4);

/// One member's area, mapped here.
class ControlArea {
 public:
  ControlArea() : layout_(0) {}
  ControlArea(std::byte* base, int members) : base_(base), members_(members), layout_(members) {}

  AreaFront& front() const { return *reinterpret_cast<AreaFront*>(base_); }
  AnnouncementLine& announcement(std::uint64_t n) const { return front().announcements[n & 1].line; }
  AnnouncementLine& groupLine(std::uint64_t n) const { return front().groups[n & 1].line; }
  std::byte* eagerSlot(std::uint64_t n) const { return base_ + layout_.eager + (n & 1) * kEagerBytes; }
  TableEntry& tableEntry(std::uint64_t n, int peer) const {
    auto* entries = reinterpret_cast<TableEntry*>(base_ + layout_.tables);
    return entries[(n & 1) * static_cast<std::size_t>(members_) + static_cast<std::size_t>(peer)];
  }
  Ring& ring(int peer) const { return reinterpret_cast<Ring*>(base_ + layout_.rings)[peer]; }
  std::byte* inputSlot(std::uint64_t slice) const { return base_ + layout_.staging + (slice & 1) * kStagingSlot; }
  std::byte* resultSlot() const { return base_ + layout_.staging + 2 * kStagingSlot; }
  std::byte* eagerMessage(int peer, int slot) const {
    return base_ + layout_.messages +
           (static_cast<std::size_t>(peer) * kEagerMessages + static_cast<std::size_t>(slot)) * kEagerBytes;
  }
  std::byte* pipe(int pipe, int half) const {
    return base_ + layout_.pipes + (static_cast<std::size_t>(pipe) * 2 + static_cast<std::size_t>(half)) * kPipeHalf;
  }
  const AreaLayout& layout() const { return layout_; }
  std::byte* base() const { return base_; }

 private:
  std::byte* base_ = nullptr;
  int members_ = 0;
  AreaLayout layout_;
};

}  // namespace symccl
