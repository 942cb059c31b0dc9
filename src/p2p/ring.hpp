// Both ends of a ring: 32 records from one member to another, in the writer's area. docs/protocol.md, section 4.
#pragma once

#include <cstdint>

#include "p2p/record.hpp"
#include "protocol/control_area.hpp"

namespace symccl {

/// What a look at the other side's words found.
enum class Look : std::uint8_t { nothing, ready, corrupt };

/// The writing end. One thread at a time.
class RingWriter {
 public:
  /// `own`: the ring in the own area; `consumed`: the reader's count of it, in the reader's area.
  RingWriter(Ring& own, const SharedWord<std::uint64_t>& consumed) : ring_(own), consumed_(consumed) {}

  /// Whether there is room for a record. Corrupt: the reader's count is one that cannot be.
  Look room(Poll poll);
  /// After room() said ready.
  void put(const Record& record);

 private:
  Ring& ring_;
  const SharedWord<std::uint64_t>& consumed_;
  std::uint64_t written_ = 0;
  std::uint64_t seen_ = 0;  // the reader's count when it was last looked at
};

/// The reading end. One thread at a time.
class RingReader {
 public:
  /// `theirs`: the ring in the writer's area; `consumed`: where this side counts, in the own area.
  RingReader(const Ring& theirs, SharedWord<std::uint64_t>& consumed) : ring_(theirs), consumed_(consumed) {}

  /// Takes the next record if it is there. Corrupt: the line shows a sequence or a type that cannot be.
  Look take(Poll poll, Record& record);
  /// Whether the count was published since this was last asked: the writer may sleep until there is room.
  bool madeRoom() {
    const bool made = madeRoom_;
    madeRoom_ = false;
    return made;
  }

 private:
  const Ring& ring_;
  SharedWord<std::uint64_t>& consumed_;
  std::uint64_t taken_ = 0;
  bool madeRoom_ = false;
};

}  // namespace symccl
