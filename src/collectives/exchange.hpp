// Slices that ranks give each other in turns: all that algorithms in message form ask of what carries them.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <vector>

#include "collectives/round.hpp"

namespace symccl {

/// Every rank goes through the same number of turns. In a turn it may give one slice, which any number of peers take,
/// and take one slice of each of several peers. Here a slice is the input slot of that number, and a turn is a step
/// (docs/protocol.md 2.4); who takes and who gives wait for each other only.
class Exchange {
 public:
  explicit Exchange(Round& round) : round_(round) {}

  /// The most bytes in a slice.
  static constexpr std::size_t kSlice = kStagingSlot;

  /// The slice of the coming turn, to be filled. Waits until it may be: what it held two turns ago has been read.
  Result<std::byte*> open();
  /// Begins the turn: `readers` take the slice in it. Without open() and readers where this rank gives nothing; every
  /// rank calls it once a turn.
  void post(std::span<const int> readers);
  void post(std::initializer_list<int> readers) { post(std::span(readers.begin(), readers.size())); }
  /// What `peer` gives to this rank in this turn. Valid until the next post().
  Result<const std::byte*> take(int peer);
  /// A turn in which `bytes` go to `to` while `from` gives to this rank: open, copy, post, take.
  Result<const std::byte*> swap(int to, const void* data, std::size_t bytes, int from);
  /// Turns in which this rank neither gives nor takes.
  void pass(int turns);
  /// After the last turn: nobody reads the slot that the next slice of any algorithm uses.
  Status finish() { return awaitReaders(); }

 private:
  Status awaitReaders();

  Round& round_;
  std::array<std::vector<int>, 2> readers_;  // of the last slice in each slot
};

}  // namespace symccl
