// A record of a point-to-point ring, as one side builds it and the other takes it: a local copy that is then checked
// and used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace symccl {

enum class RecordType : std::uint8_t {
  send = 1,  ///< a message; number = its bytes. Its id is its count on this pair, from 1
  ack,       ///< body = `count` ids: copied out, or one half of a pipe is
  clear,     ///< number = id: matched, send it through a pipe
  data,      ///< number = id; body = offset in the message, bytes, pipe * 2 + half
};

/// How the bytes of a message travel.
enum class Form : std::uint8_t {
  inlined = 1,  ///< `count` bytes in the body; complete at the sender once the record is in the ring
  inlinedOpen,  ///< the same, but the sender waits for the ACK: too many of this pair are un-ACKed
  eager,        ///< in one of the sender's eager slots; body[0] = which. Complete at the sender as inlined
  located,      ///< in the sender's registered buffer; body[0] = its heap offset. Complete at the ACK
  onDemand,     ///< after the match, through a pipe of the sender. Complete at the last ACK
};

struct Record {
  RecordType type = RecordType::send;
  Form form = Form::inlined;
  std::uint8_t count = 0;
  std::uint32_t tag = 0;
  std::uint64_t number = 0;
  std::array<std::uint64_t, 5> body{};
};

inline constexpr std::size_t kInlineMessage = sizeof(Record::body);  ///< most payload of the inline form
inline constexpr int kIdsPerAck = static_cast<int>(std::tuple_size_v<decltype(Record::body)>);
/// ACKs of Form::inlined free nothing that anybody waits for: the receiver keeps up to so many of a pair back, until
/// they fill a record or another ACK goes the same way.
inline constexpr int kAcksKeptBack = kIdsPerAck - 1;

}  // namespace symccl
