#include "symccl_bench/area.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "symccl_bench/failure.hpp"

namespace symccl::bench {

namespace {

constexpr std::size_t kPage = 4096;
constexpr int kSpins = 200;
constexpr std::chrono::microseconds kHeadStart{20};
constexpr std::int64_t kLastSpin = 3000;  // nanoseconds
constexpr auto kLongest = std::chrono::minutes(10);

Failure refused(const std::string& what) { return Failure(what + ": " + std::strerror(errno)); }

// Rank 0's file, opened by the others through /proc: no name that could outlive the ranks.
int sharedFile(Store& store, int rank, std::size_t bytes) {
  static const std::string key = "symccl-bench/area";
  if (rank == 0) {
    const int descriptor = ::memfd_create("symccl-bench", MFD_CLOEXEC);
    if (descriptor < 0 || ::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) throw refused("shared memory");
    const std::string path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(descriptor);
    orFail(store.set(key, Bytes(path.begin(), path.end())));
    return descriptor;
  }
  const Bytes path = orFail(store.get(key, std::chrono::minutes(1)));
  const std::string name(path.begin(), path.end());
  const int descriptor = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) throw refused("opening rank 0's memory (the benchmark runs on one host), " + name);
  return descriptor;
}

}  // namespace

Mapping Mapping::ofPrivate(std::size_t bytes) {
  bytes = (bytes + kPage - 1) / kPage * kPage;
  if (bytes == 0) bytes = kPage;
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw refused("mapping " + std::to_string(bytes) + " bytes");
  std::memset(data, 1, bytes);
  return {data, bytes};
}

Mapping Mapping::ofFile(int descriptor, std::size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) throw refused("mapping " + std::to_string(bytes) + " shared bytes");
  return {data, bytes};
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

void await(const std::atomic<std::uint64_t>& word, std::uint64_t value, Waiting waiting) {
  using Clock = std::chrono::steady_clock;
  const auto here = [&] { return word.load(std::memory_order_acquire) >= value; };
  for (int i = 0; i < kSpins; ++i) {
    if (here()) return;
  }
  const Clock::time_point until = Clock::now() + kLongest;
  while (!here()) {
    if (waiting == Waiting::brisk) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (Clock::now() > until) throw Failure("another rank has not come for ten minutes");
  }
}

// Lines: two of the ball, one of each rank; then each rank's values; then the extra memory.
Area::Area(Store& store, int rank, int ranks, std::size_t extraBytes)
    : rank_(rank), ranks_(ranks), extraBytes_((extraBytes + kPage - 1) / kPage * kPage) {
  const auto count = static_cast<std::size_t>(ranks);
  const std::size_t values = sizeof(Line) * (2 + count) + sizeof(double) * kMostIterations * count;
  extraStart_ = (values + kPage - 1) / kPage * kPage;
  const std::size_t bytes = extraStart_ + extraBytes_ * count;
  const int descriptor = sharedFile(store, rank, bytes);
  mapping_ = Mapping::ofFile(descriptor, bytes);
  barrier(Waiting::patient);
  ::close(descriptor);
}

void Area::barrier(Waiting waiting) {
  ++barriers_;
  lines()[2 + rank_].word.store(barriers_, std::memory_order_release);
  for (int other = 0; other < ranks_; ++other) await(lines()[2 + other].word, barriers_, waiting);
}

void Area::startTogether() {
  using Clock = std::chrono::steady_clock;
  const std::size_t turn = ++starts_ % 2;
  const auto own = (Clock::now() + kHeadStart).time_since_epoch().count();
  lines()[2 + rank_].moment[turn].store(own, std::memory_order_relaxed);
  barrier(Waiting::brisk);
  std::int64_t latest = 0;
  for (int rank = 0; rank < ranks_; ++rank)
    latest = std::max(latest, lines()[2 + rank].moment[turn].load(std::memory_order_relaxed));
  // A call of the kernel takes as long as what is to be timed: none near the end.
  for (std::int64_t left = latest; left > 0;) {
    left = latest - Clock::now().time_since_epoch().count();
    if (left > kLastSpin) ::sched_yield();
  }
}

double Area::broadcast(double value, Waiting waiting) {
  if (rank_ == 0) *values(0) = value;
  barrier(waiting);
  value = *values(0);
  barrier(waiting);
  return value;
}

std::vector<double> Area::largest(const std::vector<double>& mine) {
  std::copy(mine.begin(), mine.end(), values(rank_));
  barrier(Waiting::brisk);
  std::vector<double> result(mine.size());
  for (int rank = 0; rank < ranks_; ++rank) {
    for (std::size_t i = 0; i < mine.size(); ++i) result[i] = std::max(result[i], values(rank)[i]);
  }
  barrier(Waiting::brisk);
  return result;
}

std::uint64_t Area::sum(std::uint64_t mine) {
  *values(rank_) = static_cast<double>(mine);
  barrier(Waiting::brisk);
  double result = 0;
  for (int rank = 0; rank < ranks_; ++rank) result += *values(rank);
  barrier(Waiting::brisk);
  return static_cast<std::uint64_t>(result);
}

std::atomic<std::uint64_t>& Area::ball(int which) { return lines()[which].word; }

double* Area::values(int rank) const {
  auto* first = reinterpret_cast<double*>(mapping_.data() + sizeof(Line) * static_cast<std::size_t>(2 + ranks_));
  return first + static_cast<std::size_t>(rank) * kMostIterations;
}

std::byte* Area::slots(int rank) const {
  return mapping_.data() + extraStart_ + extraBytes_ * static_cast<std::size_t>(rank);
}

}  // namespace symccl::bench
