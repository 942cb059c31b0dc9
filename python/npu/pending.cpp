// The registry of pending work, by device and stream.
#include <Python.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <unordered_map>

#include "pending.hpp"

namespace symccl::npu {
namespace {

constexpr int kMostDevices = 64;

using Streams = std::unordered_map<c10::StreamId, PendingList>;

struct Registry {
  std::mutex mutex;
  std::array<Streams, kMostDevices> streams;
};

// Never destroyed: work may end while the process exits. A forked child has nothing pending.
std::atomic<Registry*> g_registry{new Registry};
[[maybe_unused]] const int g_forks = pthread_atfork(nullptr, nullptr, [] { g_registry.store(new Registry); });

/// The pieces that `collect` names and that are under way; those that have ended are forgotten. The work itself is
/// asked without the registry's lock, because its end may run code of others.
template <class Collect>
PendingList underWay(int ordinal, Collect collect) {
  Registry& registry = *g_registry.load();
  auto& streams = registry.streams[ordinal];
  PendingList list;
  {
    const std::lock_guard lock(registry.mutex);
    collect(streams, list);
  }
  if (std::erase_if(list, [](const auto& pending) { return pending->ended().has_value(); }) > 0) {
    const std::lock_guard lock(registry.mutex);
    for (auto& [id, pieces] : streams) std::erase_if(pieces, [](const auto& piece) { return piece->knownEnded(); });
    std::erase_if(streams, [](const auto& stream) { return stream.second.empty(); });
  }
  return list;
}

/// Lets go of the interpreter, if this thread has it: other threads may need it to bring an end about.
class WithoutGil {
 public:
  WithoutGil() : state_(PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~WithoutGil() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* const state_;
};

std::optional<Clock::time_point> waitFor(const Poll& poll) {
  const WithoutGil released;
  return poll(true);
}

}  // namespace

std::optional<Clock::time_point> Pending::ask(bool wait) {
  Poll poll;
  {
    const std::lock_guard lock(mutex_);
    if (end_) return end_;
    poll = poll_;
  }
  const auto end = wait ? waitFor(poll) : poll(false);
  if (end) {
    const std::lock_guard lock(mutex_);
    end_ = end;
    poll_ = nullptr;
  }
  return end;
}

bool Pending::knownEnded() const {
  const std::lock_guard lock(mutex_);
  return end_.has_value();
}

void addPending(const c10::Stream& stream, Poll poll) {
  pendingOn(stream);  // so that what has ended does not pile up
  Registry& registry = *g_registry.load();
  const std::lock_guard lock(registry.mutex);
  registry.streams[stream.device_index()][stream.id()].push_back(std::make_shared<Pending>(std::move(poll)));
}

PendingList pendingOn(const c10::Stream& stream) {
  return underWay(stream.device_index(), [&](Streams& streams, PendingList& list) {
    if (const auto found = streams.find(stream.id()); found != streams.end()) list = found->second;
  });
}

PendingList pendingOn(int ordinal) {
  return underWay(ordinal, [](Streams& streams, PendingList& list) {
    for (const auto& [id, pieces] : streams) list.insert(list.end(), pieces.begin(), pieces.end());
  });
}

bool queryStream(const c10::Stream& stream) { return pendingOn(stream).empty(); }

void synchronizeStream(const c10::Stream& stream) {
  for (const auto& pending : pendingOn(stream)) pending->wait();
}

void synchronizeDevice(int ordinal) {
  for (const auto& pending : pendingOn(resolveDevice(ordinal))) pending->wait();
}

}  // namespace symccl::npu
