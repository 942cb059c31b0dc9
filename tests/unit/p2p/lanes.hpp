// Point-to-point lanes over groups made by hand, and buffers for them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "memory/segment_set.hpp"
#include "p2p/message_lane.hpp"
#include "unit/protocol_fixture.hpp"

namespace symccl::test {

using RequestPtr = std::shared_ptr<detail::RequestState>;

/// A lane for each rank, with one registered set for all.
class Lanes {
 public:
  explicit Lanes(int size, const GroupOptions& options = {})
      : groups_(size, options), registered_(groups_.heap().bytes()) {
    for (int rank = 0; rank < size; ++rank) lanes_.push_back(MessageLane::create(groups_[rank], registered_));
  }

  int size() const { return groups_.size(); }
  GroupRanks& groups() { return groups_; }
  Group& group(int rank) { return groups_[rank]; }
  MessageLane& lane(int rank) { return *lanes_[static_cast<std::size_t>(rank)]; }
  std::unique_ptr<MessageLane> take(int rank) { return std::move(lanes_[static_cast<std::size_t>(rank)]); }
  SegmentSet& registered() { return registered_; }
  Heap& heap() { return groups_.heap(); }

  RequestPtr start(int rank, const Message& message, Deadline deadline = Deadline::in(std::chrono::seconds(50))) {
    return lane(rank).start({&message, 1}, deadline).front();
  }
  RequestPtr send(int rank, const void* data, std::size_t bytes, int peer, int tag) {
    return start(rank, {Message::Way::send, const_cast<void*>(data), bytes, peer, tag, false});
  }
  RequestPtr recv(int rank, void* data, std::size_t bytes, int peer, int tag) {
    return start(rank, {Message::Way::recv, data, bytes, peer, tag, false});
  }

 private:
  GroupRanks groups_;
  SegmentSet registered_;
  std::vector<std::unique_ptr<MessageLane>> lanes_;
};

/// Bytes of which every one depends on its place and on `seed`.
inline std::uint8_t patternByte(std::size_t seed, std::size_t at) {
  const std::uint64_t mixed = (seed * 0x9e3779b97f4a7c15u + at) * 0xbf58476d1ce4e5b9u;
  return static_cast<std::uint8_t>(mixed >> 56);
}

/// A buffer with guard bytes on both sides, at an odd address; in private memory or in a registered segment.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes) : bytes_(bytes), private_(bytes + 2 * kGuard) {
    begin_ = private_.data();
    guard();
  }
  Buffer(Lanes& lanes, std::size_t bytes) : bytes_(bytes), lanes_(&lanes) {
    auto segment = lanes.heap().reserve(bytes + 2 * kGuard, Backing::reserved);
    if (!segment) {
      ADD_FAILURE() << segment.error().message();
      std::abort();
    }
    segment_ = *segment;
    lanes.registered().add(segment_, bytes + 2 * kGuard);
    begin_ = reinterpret_cast<std::uint8_t*>(lanes.heap().base() + segment_);
    guard();
  }
  Buffer(Buffer&& other) noexcept
      : bytes_(other.bytes_),
        private_(std::move(other.private_)),
        lanes_(std::exchange(other.lanes_, nullptr)),
        segment_(other.segment_),
        begin_(other.begin_) {}
  ~Buffer() {
    if (lanes_ == nullptr) return;
    lanes_->registered().remove(segment_, bytes_ + 2 * kGuard);
    lanes_->heap().release(segment_);
  }

  std::uint8_t* data() { return begin_ + kGuard; }
  std::size_t bytes() const { return bytes_; }
  void fill(std::size_t seed) {
    for (std::size_t i = 0; i < bytes_; ++i) data()[i] = patternByte(seed, i);
  }
  /// The first `bytes` are the pattern, the rest and the guards are untouched.
  testing::AssertionResult holds(std::size_t seed, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) {
      if (data()[i] != patternByte(seed, i)) return testing::AssertionFailure() << "byte " << i << " of " << bytes;
    }
    for (std::size_t i = 0; i < kGuard; ++i) {
      if (begin_[i] != kUntouched) return testing::AssertionFailure() << "guard " << i << " before";
    }
    for (std::size_t i = bytes; i < bytes_ + kGuard; ++i) {
      if (data()[i] != kUntouched) return testing::AssertionFailure() << "touched byte " << i << " behind " << bytes;
    }
    return testing::AssertionSuccess();
  }

 private:
  static constexpr std::size_t kGuard = 61;
  static constexpr std::uint8_t kUntouched = 0xa5;
  void guard() { std::memset(begin_, kUntouched, bytes_ + 2 * kGuard); }

  std::size_t bytes_;
  std::vector<std::uint8_t> private_;
  Lanes* lanes_ = nullptr;
  std::size_t segment_ = 0;
  std::uint8_t* begin_ = nullptr;
};

inline Buffer makeBuffer(Lanes& lanes, std::size_t bytes, bool located) {
  return located ? Buffer(lanes, bytes) : Buffer(bytes);
}

inline testing::AssertionResult succeeded(const Status& status) {
  if (status) return testing::AssertionSuccess();
  return testing::AssertionFailure() << codeName(status.error().code()) << ": " << status.error().message();
}
inline testing::AssertionResult ends(const RequestPtr& request) { return succeeded(request->wait(Deadline::never())); }

inline testing::AssertionResult failsWith(const Status& status, Code code, const std::vector<std::string>& says) {
  if (status) return testing::AssertionFailure() << "it succeeded";
  const Error& error = status.error();
  if (error.code() != code) return testing::AssertionFailure() << codeName(error.code()) << ": " << error.message();
  for (const std::string& part : says) {
    if (error.message().find(part) == std::string::npos) {
      return testing::AssertionFailure() << "no '" << part << "' in: " << error.message();
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace symccl::test
