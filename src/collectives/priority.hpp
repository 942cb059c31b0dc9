// Operations of high priority go first: large ones of this process's other communicators give way to them.
#pragma once

#include <atomic>

namespace symccl {

/// For its lifetime an operation of high priority is in hand in this process. Any thread.
class UrgentOperation {
 public:
  UrgentOperation();
  UrgentOperation(const UrgentOperation&) = delete;
  UrgentOperation& operator=(const UrgentOperation&) = delete;
  ~UrgentOperation();
};

/// What one operation without priority has given up for others so far: a bounded number of pauses of at most 1 ms each,
/// so that giving way slows an operation down but never gates it. Any thread.
class GivingWay {
 public:
  /// Between two blocks: waits while an urgent operation is in hand. One load where there is none.
  void pause() {
    if (anyUrgent()) pauseNow();
  }

 private:
  static bool anyUrgent();
  void pauseNow();

  std::atomic<int> pauses_{0};
};

}  // namespace symccl
