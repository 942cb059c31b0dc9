// The one wait: poll, look at the bells, yield, sleep on the own bell.
//
// The only loop on shared memory in the library (docs/protocol.md, section 3.4). The hot path has no fence: who goes to
// sleep pays for it with an asymmetric barrier.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/deadline.hpp"
#include "base/shared_word.hpp"

namespace symccl {

/// A member's bell: the futex word on which it sleeps, and for whom. The two words are written by others too.
struct Bell {
  SharedWord<std::uint32_t> rings;
  SharedWord<std::uint32_t> asleep;  ///< 0, 1 + the member waited for, or kAnyMember
};
inline constexpr std::uint32_t kAnyMember = ~std::uint32_t{0};

/// A member's first error, spread to all who see it.
struct ErrorWords {
  SharedWord<std::uint64_t> error;      ///< 0: none; else packed by protocol/failure.hpp
  SharedWord<std::uint64_t> operation;  ///< the origin's operation
  SharedWord<std::uint64_t> quiet;      ///< 1: touches no peer's memory any more
};

/// What one member looks like to the wait of another.
struct WatchedMember {
  Bell* bell = nullptr;
  ErrorWords* errors = nullptr;
  const std::atomic<bool>* gone = nullptr;
};

/// Why a wait ended.
enum class WaitEnd : std::uint8_t { satisfied, ownError, memberError, gone, deadline };

/// How long to poll before yielding and to yield before sleeping.
struct WaitBudget {
  int polls = 0;  ///< before the clock is read for the first time
  std::chrono::nanoseconds poll{};
  std::chrono::nanoseconds yield{};
};
/// From this host's members against the CPUs that they share; `yields`: a member that yields lets the others run.
WaitBudget waitBudget(int members, int cpus, bool yields);

/// What waitUntil() needs to know; filled by the layer that owns the members. One thread at a time drives a context.
struct WaitContext {
  int self = 0;
  std::span<const WatchedMember> members;  ///< by member; the own one included
  bool fences = false;                     ///< not membarrier: by all members alike
  WaitBudget budget{};
  bool dirty = false;  ///< something was published since the bells were last looked at
  Deadline deadline = Deadline::never();
  bool endOnErrors = true;  ///< false: only the condition, a death, and the deadline end a wait
  /// Whether `member`'s error ends a wait for `waitedFor` (-1: any): an error "destroyed at m" does not end every wait.
  bool (*counts)(const WaitContext&, int member, int waitedFor, std::uint64_t error, std::uint64_t operation) = nullptr;
  std::uint64_t operation = 0;  ///< the operation that waits
  int culprit = -1;             ///< out: the member whose error or death ended the wait, or who did not come in time
};

/// Wakes members that sleep for this one (or for any), after something was published. Ends `dirty`.
void lookAtBells(WaitContext& context);
/// The same for some members only (the own one too: threads of this process that wait for this lane). Leaves `dirty` as
/// it is.
void lookAtBells(const WaitContext& context, std::span<const int> members);
/// Wakes one member's sleeper whatever it waits for.
void ring(Bell& bell);

/// What a thread that sleeps in a wait runs about every 50 ms, while the wait may end on errors; null: nothing.
extern std::atomic<void (*)()> waitHook;

namespace detail {
/// The slow stages, kept out of line: entered when the first polls failed.
class SlowWait {
 public:
  SlowWait(WaitContext& context, int member) : context_(context), member_(member) {}
  /// Called after each failed poll. True when the wait must end with `end`.
  bool step(WaitEnd& end);
  /// Called once when the wait is over.
  void finish();

 private:
  bool reasonToEnd(WaitEnd& end);
  bool errorCounts(WaitEnd& end);
  bool memberGone();
  void announceSleep();
  void sleep();

  WaitContext& context_;
  const int member_;  // the member waited for, or -1: any
  const Deadline::Clock::time_point start_ = Deadline::Clock::now();
  unsigned yields_ = 0;
  std::uint32_t rings_ = 0;
  bool announced_ = false;
};
inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}
}  // namespace detail

struct PollKey {
  static Poll make() { return {}; }
};

/// Waits until `condition(poll)` holds; it loads the words it looks at with poll(poll). `member`: whose words they are,
/// or -1 for any. A condition that holds wins over every error; only then come the own error, a member's error, the
/// death of `member`, and the deadline.
template <class Condition>
inline WaitEnd waitUntil(WaitContext& context, int member, Condition&& condition) {
  const Poll poll = PollKey::make();
  for (int round = context.budget.polls; round >= 0; --round) {
    if (condition(poll)) return WaitEnd::satisfied;
    detail::pause();
  }
  detail::SlowWait slow(context, member);
  WaitEnd end = WaitEnd::satisfied;
  while (!condition(poll)) {
    if (slow.step(end)) {
      if (condition(poll)) end = WaitEnd::satisfied;
      break;
    }
  }
  slow.finish();
  return end;
}

}  // namespace symccl
