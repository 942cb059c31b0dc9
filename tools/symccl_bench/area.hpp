// Memory that the ranks of a benchmark share among themselves, apart from the library that they measure.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "symccl/store.hpp"

namespace symccl::bench {

/// A mapped range; unmapped when it goes.
class Mapping {
 public:
  /// Private memory, written once so that it is there.
  static Mapping ofPrivate(std::size_t bytes);
  static Mapping ofFile(int descriptor, std::size_t bytes);
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Mapping(void* data, std::size_t bytes) : data_(static_cast<std::byte*>(data)), bytes_(bytes) {}
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// How a rank waits: `brisk` before something is timed, `patient` (asleep most of the time) while other ranks or
/// other programs are timed.
enum class Waiting : unsigned char { brisk, patient };

/// Barriers, and what the ranks tell rank 0. Every rank makes the same calls in the same order. Waits fail after ten
/// minutes.
class Area {
 public:
  static constexpr std::size_t kMostIterations = 100'000;

  /// Collective. `extraBytes` of every rank are for slots().
  Area(Store& store, int rank, int ranks, std::size_t extraBytes);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  void barrier(Waiting waiting);
  /// A moment that the ranks agree on, shortly after the last of them came: a barrier lets them go one after the
  /// other, by as much as a small operation takes.
  void startTogether();
  /// The same value on all ranks: rank 0's.
  double broadcast(double value, Waiting waiting);
  /// Collective: the largest of each place, over the ranks; all vectors have the same length <= kMostIterations.
  std::vector<double> largest(const std::vector<double>& mine);
  /// Collective: the sum over the ranks.
  std::uint64_t sum(std::uint64_t mine);

  /// A word that two ranks pass to and fro, on a line of its own: `which` is 0 or 1.
  std::atomic<std::uint64_t>& ball(int which);
  /// Extra memory of `rank`.
  std::byte* slots(int rank) const;
  std::size_t slotBytes() const { return extraBytes_; }

 private:
  // Two cache lines, because neighbours are prefetched in pairs.
  struct Line {
    alignas(128) std::atomic<std::uint64_t> word;
    std::atomic<std::int64_t> moment[2];  // of startTogether(), in turn
  };
  static_assert(sizeof(Line) == 128 && std::atomic<std::uint64_t>::is_always_lock_free);
  Line* lines() const { return reinterpret_cast<Line*>(mapping_.data()); }
  double* values(int rank) const;

  int rank_, ranks_;
  std::size_t extraBytes_;
  std::size_t extraStart_ = 0;
  std::uint64_t barriers_ = 0, starts_ = 0;
  Mapping mapping_;
};

/// Waits until `word` has at least `value`.
void await(const std::atomic<std::uint64_t>& word, std::uint64_t value, Waiting waiting);

}  // namespace symccl::bench
