// Threads that help a rank to move the bytes of a large operation.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fork.hpp"

namespace symccl {

/// Runs the parts of a piece of work on the calling thread and on threads of its own, which sleep in between. They
/// start when they are first needed. Thread-safe: who finds the team busy works alone.
class ThreadTeam {
 public:
  ThreadTeam() = default;
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();

  /// Calls work(part) once for each part in [0, parts), in any order, at once on up to as many threads as there are
  /// parts; returns when all have returned. Alone where the system has no more threads, and in a forked child.
  void run(int parts, const std::function<void(int)>& work);

  /// The team that all communicators of this process share.
  static ThreadTeam& ofProcess();

 private:
  void help();
  void takeParts();

  const std::uint64_t forkGeneration_ = forkGeneration();
  std::mutex caller_;  // held by who runs something
  std::vector<std::thread> helpers_;

  std::mutex mutex_;
  std::condition_variable called_, finished_;
  std::uint64_t round_ = 0;                         // guarded by mutex_
  bool open_ = false;                               // whether a helper may join the round; guarded by mutex_
  int inside_ = 0;                                  // helpers in the round; guarded by mutex_
  bool ending_ = false;                             // guarded by mutex_
  const std::function<void(int)>* work_ = nullptr;  // of the round
  int parts_ = 0;                                   // of the round
  std::atomic<int> next_{0};                        // the first part that nobody has taken
};

}  // namespace symccl
