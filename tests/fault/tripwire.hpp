// A page on which something happens when the library gets there: how a test acts in the middle of a copy.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>

namespace symccl::test {

/// Runs `action` when this process first touches the page of `address`, then lets it go on. One at a time in a process.
/// In a heap only this process's own mapping is concerned; system calls on the page fail instead.
class Tripwire {
 public:
  Tripwire(void* address, std::function<void()> action) : action_(std::move(action)) {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    page_ = reinterpret_cast<void*>(at - at % kPage);
    current() = this;
    struct sigaction handler{};
    handler.sa_sigaction = [](int, siginfo_t* fault, void*) { tripped(fault->si_addr); };
    handler.sa_flags = SA_SIGINFO | SA_NODEFER;
    EXPECT_EQ(::sigaction(SIGSEGV, &handler, nullptr), 0);
    EXPECT_EQ(::mprotect(page_, kPage, PROT_NONE), 0);
  }
  Tripwire(const Tripwire&) = delete;
  Tripwire& operator=(const Tripwire&) = delete;
  ~Tripwire() {
    disarm();
    EXPECT_TRUE(tripped_) << "the page was never touched";
    ::signal(SIGSEGV, SIG_DFL);
    current() = nullptr;
  }
  bool hasTripped() const { return tripped_; }

 private:
  static constexpr std::size_t kPage = 4096;

  static Tripwire*& current() {
    static Tripwire* wire = nullptr;
    return wire;
  }
  static void tripped(void* where) {
    Tripwire* wire = current();
    const auto* at = static_cast<std::byte*>(where);
    const auto* page = wire == nullptr ? nullptr : static_cast<std::byte*>(wire->page_);
    if (page == nullptr || at < page || at >= page + kPage) {
      ::signal(SIGSEGV, SIG_DFL);  // a fault of another kind: it happens again, and ends the process
      return;
    }
    if (!wire->tripped_) {
      wire->tripped_ = true;
      wire->action_();
    }
    wire->disarm();
  }
  void disarm() { ::mprotect(page_, kPage, PROT_READ | PROT_WRITE); }

  std::function<void()> action_;
  void* page_ = nullptr;
  bool tripped_ = false;
};

/// Ends this process at once, as an out-of-memory killer does.
[[noreturn]] inline void die() {
  ::kill(::getpid(), SIGKILL);
  std::abort();
}

}  // namespace symccl::test
