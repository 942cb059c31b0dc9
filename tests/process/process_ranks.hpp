// Ranks that are processes, forked from the test before it has a thread; the test itself never uses the library.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "process/shared_store.hpp"
#include "symccl/communicator.hpp"
#include "unit/thread_ranks.hpp"

namespace symccl::test {

using namespace std::chrono_literals;

inline constexpr int kMostProcesses = 64;

/// Memory that all processes of a test share, mapped before they are forked.
struct Stage {
  std::array<std::atomic<std::uint32_t>, 64> arrived{};
  std::array<std::atomic<std::int64_t>, 64> words{};
  std::array<std::atomic<std::int32_t>, kMostProcesses> pids{};
  SharedStore::Table table;
};

/// Memory that a test shares with its processes, zero at first; for what it must know after they have ended.
template <class T>
class SharedMemory {
 public:
  SharedMemory() : value_(::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() { ::munmap(value_, sizeof(T)); }
  T* operator->() { return static_cast<T*>(value_); }

 private:
  void* value_;
};

/// One process of a test. Failures of EXPECT inside it fail the test. RANK, LOCAL_RANK, WORLD_SIZE and
/// LOCAL_WORLD_SIZE are set as a launcher sets them.
class RankProcess {
 public:
  RankProcess(int rank, int size, Stage& stage) : rank_(rank), size_(size), stage_(stage), store_(stage.table) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  SharedStore& store() { return store_; }
  /// Words for the test's own use, zero at first.
  std::atomic<std::int64_t>& word(int index) { return stage_.words[static_cast<std::size_t>(index)]; }

  /// Sets a variable of this process; before the library is used.
  void set(const char* name, const std::string& value);

  Result<std::shared_ptr<Communicator>> create(const CommunicatorOptions& options, int size = -1);
  /// A communicator of the first `size` processes (-1: all), or this process ends with a failure. The timeout is long,
  /// so that an error which comes earlier was not the deadline's.
  std::shared_ptr<Communicator> join(const std::string& name = "world", std::chrono::milliseconds timeout = 60s,
                                     int size = -1);

  /// Waits until `processes` (-1: all) have come to point `which` (0..63).
  void meet(int which, int processes = -1);

  pid_t pidOf(int rank) const { return stage_.pids[static_cast<std::size_t>(rank)].load(); }
  /// "rank 2 (pid 811)".
  std::string nameOf(int rank) const;
  void signal(int rank, int signal) const;
  /// Waits until the process of `rank` "is stopped", "is gone", "is running".
  void awaitState(int rank, const std::string& state) const;
  /// Returns when the process of `rank` is stopped.
  void stop(int rank) const;

 private:
  const int rank_, size_;
  Stage& stage_;
  SharedStore store_;
};

/// Runs `body` in `processes` processes and waits for them. Each must end by itself without a failure, but for
/// `killed`, which must be killed. Whoever has not ended after a long time is killed, and the test fails.
void onProcesses(int processes, const std::function<void(RankProcess&)>& body, const std::set<int>& killed = {});

/// Waits until `condition` holds; false if that takes very long.
bool eventually(const std::function<bool()>& condition);

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
#define EXPECT_CONTAINS(text, part) EXPECT_PRED2(::symccl::test::contains, text, part)

}  // namespace symccl::test
