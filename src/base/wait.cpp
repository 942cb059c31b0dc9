#include "base/wait.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

#include "base/barrier.hpp"

namespace symccl {

namespace {

using std::chrono::nanoseconds;

// Words are mapped at different addresses in different processes, so the futex is a shared one: keyed by file and
// offset.
void futexWake(const void* word) { ::syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

void futexWait(const void* word, std::uint32_t seen, nanoseconds most) {
  const auto count = most.count();
  timespec limit{static_cast<time_t>(count / 1'000'000'000), static_cast<long>(count % 1'000'000'000)};
  ::syscall(SYS_futex, word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

constexpr nanoseconds kLookAfter{200};
constexpr nanoseconds kSleepSlice{50'000'000};
constexpr unsigned kYieldsBetweenChecks = 16;

}  // namespace

std::atomic<void (*)()> waitHook{nullptr};

WaitBudget waitBudget(int members, int cpus, bool yields) {
  // Whoever sleeps beside other work of the machine waits for a time slice of that work when it is woken, so a rank
  // with a CPU of its own yields for longer.
  if (members <= cpus) return {64, nanoseconds(3000), nanoseconds(2'000'000)};
  // Where yielding reaches nobody it only keeps the CPU from those that are waited for.
  return {2, nanoseconds(100), nanoseconds(yields ? 200'000 : 0)};
}

void ring(Bell& bell) {
  bell.rings.fetchAdd(1);
  futexWake(bell.rings.address());
}

namespace {

void orderPublishedBeforeLooks(const WaitContext& context) {
  if (context.fences) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

void lookAt(const WaitContext& context, const WatchedMember& member) {
  const std::uint32_t asleep = member.bell->asleep.get();
  const auto mine = static_cast<std::uint32_t>(context.self) + 1;
  if (asleep != 0 && (asleep == mine || asleep == kAnyMember)) ring(*member.bell);
}

}  // namespace

void lookAtBells(WaitContext& context) {
  orderPublishedBeforeLooks(context);
  for (const WatchedMember& member : context.members) lookAt(context, member);
  context.dirty = false;
}

void lookAtBells(const WaitContext& context, std::span<const int> members) {
  orderPublishedBeforeLooks(context);
  for (int member : members) lookAt(context, context.members[static_cast<std::size_t>(member)]);
}

namespace detail {

bool SlowWait::memberGone() {
  const auto gone = [&](int member) { return context_.members[member].gone->load(std::memory_order_acquire); };
  if (member_ >= 0) {
    context_.culprit = member_;
    return gone(member_);
  }
  const int members = static_cast<int>(context_.members.size());
  for (int member = 0; member < members; ++member) {
    if (member == context_.self) continue;
    if (!gone(member)) return false;
    context_.culprit = member;
  }
  return members > 1;
}

bool SlowWait::errorCounts(WaitEnd& end) {
  const ErrorWords& own = *context_.members[context_.self].errors;
  if (own.error.read() != 0) {
    end = WaitEnd::ownError;
    return true;
  }
  for (std::size_t member = 0; member < context_.members.size(); ++member) {
    const ErrorWords& words = *context_.members[member].errors;
    const std::uint64_t error = words.error.read();
    if (error != 0 && context_.counts(context_, static_cast<int>(member), member_, error, words.operation.get())) {
      context_.culprit = static_cast<int>(member);
      end = WaitEnd::memberError;
      return true;
    }
  }
  return false;
}

bool SlowWait::reasonToEnd(WaitEnd& end) {
  if (context_.endOnErrors && errorCounts(end)) return true;
  if (memberGone()) {
    end = WaitEnd::gone;
    return true;
  }
  if (context_.deadline.passed()) {
    context_.culprit = member_;
    end = WaitEnd::deadline;
    return true;
  }
  return false;
}

void SlowWait::announceSleep() {
  Bell& bell = *context_.members[context_.self].bell;
  rings_ = bell.rings.read();
  bell.asleep.publish(member_ < 0 ? kAnyMember : static_cast<std::uint32_t>(member_) + 1);
  asymmetricBarrier(context_.fences);
  announced_ = true;
}

void SlowWait::sleep() {
  const Bell& bell = *context_.members[context_.self].bell;
  futexWait(bell.rings.address(), rings_, std::min<nanoseconds>(context_.deadline.left(), kSleepSlice));
  finish();
  void (*const hook)() = waitHook.load(std::memory_order_relaxed);
  if (hook != nullptr && context_.endOnErrors) hook();
}

void SlowWait::finish() {
  if (!announced_) return;
  context_.members[context_.self].bell->asleep.publish(0);
  announced_ = false;
}

bool SlowWait::step(WaitEnd& end) {
  if (announced_) {
    sleep();
    return reasonToEnd(end);
  }
  const nanoseconds waited = Deadline::Clock::now() - start_;
  if (context_.dirty && waited > kLookAfter) lookAtBells(context_);
  if (waited < context_.budget.poll) {
    pause();
    return false;
  }
  if (waited < context_.budget.poll + context_.budget.yield) {
    ::sched_yield();
    return ++yields_ % kYieldsBetweenChecks == 0 && reasonToEnd(end);
  }
  if (context_.dirty) lookAtBells(context_);
  announceSleep();
  return reasonToEnd(end);
}

}  // namespace detail

}  // namespace symccl
