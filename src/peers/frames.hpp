// What goes over a link once it is made: frames of { bytes that follow, kind, body }, some with a descriptor.
//
//   message: topic, bytes    heap: id, ordinal, bytes - and its descriptor, which travels with the frame's first byte
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/file_descriptor.hpp"
#include "base/host.hpp"
#include "bootstrap/wire.hpp"
#include "symccl/result.hpp"

namespace symccl::frames {

inline constexpr std::size_t kMostTopicBytes = 256;
inline constexpr std::size_t kMostMessageBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMostFrameBytes = kMostMessageBytes + kMostTopicBytes + 64;

enum class FrameKind : std::uint8_t { message = 1, heap };

struct MessageFrame {
  std::string topic;
  Bytes message;
};
struct HeapFrame {
  Uuid id;
  std::uint32_t ordinal = 0;
  std::uint64_t bytes = 0;
};
Bytes encode(const MessageFrame& frame);
Bytes encode(const HeapFrame& frame);
std::optional<MessageFrame> readMessage(const Bytes& body);
std::optional<HeapFrame> readHeap(const Bytes& body);

/// Frames on their way out. Not thread-safe; never blocks.
class Outbox {
 public:
  enum class Flushed {
    all,
    blocked,    ///< the socket's buffer is full: go on when it can be written
    congested,  ///< memory or the number of descriptors on their way is at a limit: go on a little later
    closed,     ///< the other end is gone
  };
  /// `descriptor` (-1: none) stays the caller's and must stay open.
  void push(Bytes frame, int descriptor) { waiting_.push_back({std::move(frame), descriptor, 0}); }
  Flushed flush(int socket);
  std::size_t frames() const { return waiting_.size(); }
  void clear() { waiting_.clear(); }

 private:
  struct Waiting {
    Bytes bytes;
    int descriptor;
    std::size_t sent;
  };
  std::deque<Waiting> waiting_;
};

struct Frame {
  FrameKind kind;
  Bytes body;
  FileDescriptor descriptor;  ///< heap: none if this process had no descriptor left for it
};

/// Frames on their way in. Not thread-safe; never blocks; holds one frame and one read at most.
class Inbox {
 public:
  enum class Read {
    some,     ///< look at next(), then read again
    nothing,  ///< nothing there now
    closed,   ///< the other end is gone, and all that it sent has been read
  };
  Read read(int socket);
  /// The next frame, nothing if none is whole, Code::corrupt if what came cannot be one.
  Result<std::optional<Frame>> next();

 private:
  Bytes in_;
  std::deque<FileDescriptor> descriptors_;  // in the order of their frames; none where it was lost
};

}  // namespace symccl::frames
