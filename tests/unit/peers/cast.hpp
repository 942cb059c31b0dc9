// Processes that play the parts of one test: forked from the test, which itself has no links and no threads.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "peers/links.hpp"

namespace symccl::testing_links {

inline constexpr int kMostParts = 8;

/// Memory that all parts of a test share, mapped before they are forked.
struct Stage {
  std::array<std::atomic<std::uint32_t>, 64> arrived{};
  std::array<std::array<std::uint8_t, 1024>, kMostParts> entry{};
  std::array<std::atomic<std::uint32_t>, kMostParts> entryBytes{};
  std::array<std::atomic<std::int64_t>, 64> word{};
  std::array<std::atomic<std::int32_t>, kMostParts> pid{};
};

/// One part. Failures of EXPECT inside it fail the test.
class Part {
 public:
  Part(int index, int size, Stage& stage) : index_(index), size_(size), stage_(stage) {}

  int index() const { return index_; }
  int size() const { return size_; }
  Stage& stage() { return stage_; }
  /// This process's links, made on first use.
  Links& links();
  /// Tells the others this process's entry; entryOf() waits for theirs.
  void publish();
  ProcessEntry entryOf(int other);
  pid_t pidOf(int other) { return stage_.pid[static_cast<std::size_t>(other)].load(); }
  /// reach()es `other`; publishes first if that is not done. Null after a failure.
  Peer* linked(int other);
  /// Waits until `parts` (-1: all) have come to point `which` (0..63).
  void meet(int which, int parts = -1);

 private:
  int index_, size_;
  Stage& stage_;
  bool published_ = false;
};

/// Runs `play` in `parts` processes and waits for them. Each must end by itself without a failure, but for `killed`,
/// which must be killed.
void perform(int parts, const std::function<void(Part&)>& play, int killed = -1);

/// A deadline that no test should meet.
inline Deadline late() { return Deadline::in(std::chrono::seconds(40)); }
/// Waits until `condition` holds; false if that takes very long.
bool eventually(const std::function<bool()>& condition);

int openDescriptors();
/// How many descriptors of this process are sockets.
int openSockets();
/// The sentinel's thread id, or 0 if this process has none.
pid_t sentinelThread();

}  // namespace symccl::testing_links
