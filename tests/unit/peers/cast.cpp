#include "cast.hpp"

#include <dirent.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

#include "base/text_file.hpp"

#if defined(__SANITIZE_THREAD__)
// Parts of some tests fork again while their sentinel runs, and start threads in the child.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "die_after_fork=0:atexit_sleep_ms=0";
}
#endif

namespace symccl::testing_links {
namespace {

template <class Visit>
void eachEntry(const std::string& folder, Visit visit) {
  DIR* directory = ::opendir(folder.c_str());
  if (!directory) return;
  while (const dirent* one = ::readdir(directory)) {
    if (one->d_name[0] != '.') visit(std::string(one->d_name));
  }
  ::closedir(directory);
}

}  // namespace

bool eventually(const std::function<bool()>& condition) {
  const Deadline deadline = late();
  while (!condition()) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

Links& Part::links() {
  Result<Links*> made = Links::instance();
  if (!made) {
    ADD_FAILURE() << made.error().message();
    ::_exit(1);
  }
  return **made;
}

void Part::publish() {
  if (published_) return;
  published_ = true;
  WireWriter out;
  links().self().write(out);
  const Bytes bytes = out.take();
  const auto me = static_cast<std::size_t>(index_);
  std::copy(bytes.begin(), bytes.end(), stage_.entry[me].begin());
  stage_.entryBytes[me].store(static_cast<std::uint32_t>(bytes.size()), std::memory_order_release);
}

ProcessEntry Part::entryOf(int other) {
  const auto at = static_cast<std::size_t>(other);
  EXPECT_TRUE(eventually([&] { return stage_.entryBytes[at].load(std::memory_order_acquire) > 0; }))
      << "part " << other;
  const auto& slot = stage_.entry[at];
  const Bytes bytes(slot.begin(), slot.begin() + stage_.entryBytes[at].load());
  WireReader in(bytes);
  const ProcessEntry entry = ProcessEntry::read(in);
  EXPECT_TRUE(in.complete());
  return entry;
}

Peer* Part::linked(int other) {
  publish();
  Result<Peer*> peer = links().reach(entryOf(other), late(), {});
  if (!peer) ADD_FAILURE() << "part " << index_ << " reaches " << other << ": " << peer.error().message();
  return peer ? *peer : nullptr;
}

void Part::meet(int which, int parts) {
  const auto all = static_cast<std::uint32_t>(parts < 0 ? size_ : parts);
  auto& arrived = stage_.arrived[static_cast<std::size_t>(which)];
  arrived.fetch_add(1);
  EXPECT_TRUE(eventually([&] { return arrived.load() >= all; })) << "part " << index_ << " at point " << which;
}

void perform(int parts, const std::function<void(Part&)>& play, int killed) {
  void* shared = ::mmap(nullptr, sizeof(Stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  Stage& stage = *new (shared) Stage;
  std::fflush(nullptr);  // else every part prints what waits in the buffers
  std::vector<pid_t> pids;
  for (int index = 0; index < parts; ++index) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      stage.pid[static_cast<std::size_t>(index)].store(::getpid());
      Part part(index, parts, stage);
      while (stage.pid[static_cast<std::size_t>(parts - 1)].load() == 0) ::usleep(100);
      play(part);
      std::exit(testing::Test::HasFailure() ? 1 : 0);  // not _exit: the sentinel must not hold up a plain exit
    }
    pids.push_back(pid);
  }
  for (int index = 0; index < parts; ++index) {
    int status = 0;
    ::waitpid(pids[static_cast<std::size_t>(index)], &status, 0);
    if (index == killed) {
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "part " << index;
    } else {
      EXPECT_TRUE(WIFEXITED(status)) << "part " << index << " was ended by signal " << WTERMSIG(status);
      EXPECT_EQ(WEXITSTATUS(status), 0) << "part " << index;
    }
  }
  ::munmap(shared, sizeof(Stage));
}

int openDescriptors() {
  int count = 0;
  eachEntry("/proc/self/fd", [&](const std::string&) { ++count; });
  return count - 1;  // the folder itself
}

int openSockets() {
  int count = 0;
  eachEntry("/proc/self/fd", [&](const std::string& fd) {
    char target[64] = {};
    const ssize_t bytes = ::readlink(("/proc/self/fd/" + fd).c_str(), target, sizeof target - 1);
    count += bytes > 0 && std::string(target).starts_with("socket:") ? 1 : 0;
  });
  return count;
}

pid_t sentinelThread() {
  pid_t found = 0;
  eachEntry("/proc/self/task", [&](const std::string& tid) {
    if (readTextFile("/proc/self/task/" + tid + "/comm").value_or("") == "symccl-links\n") found = std::stoi(tid);
  });
  return found;
}

}  // namespace symccl::testing_links
