#include "bootstrap/quiet_thread.hpp"

#include <pthread.h>
#include <signal.h>

#include <system_error>

#include "base/checks.hpp"

namespace symccl {

Result<std::thread> startQuietThread(const char* name, std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> started = [&]() -> Result<std::thread> {
    try {
      return std::thread(std::move(body));
    } catch (const std::system_error& refused) {
      return Error(Code::system, text("starting the thread '", name, "' failed: ", refused.what()));
    }
  }();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started) pthread_setname_np(started->native_handle(), name);
  return started;
}

}  // namespace symccl
