// What a TcpStore's client and server say to each other.
//
//   server -> client   greeting: magic, version, the server's nonce
//   client -> server   answer: magic, version, the client's nonce, HMAC(token, "client", both nonces)
//   server -> client   verdict: 1, HMAC(token, "server", both nonces); or 0 and the connection closes
//
// Neither end learns the token from the other, and neither serves or trusts an end that does not know it. Then requests
// and replies take turns, each a 32-bit length and that many bytes:
//
//   set: key, value -> done    get: key, milliseconds -> done, value | timeout    add: key, amount -> done, sum
//   any -> refused, code, sentence    at any time from the server: closed, sentence
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/deadline.hpp"
#include "bootstrap/sha256.hpp"
#include "bootstrap/store_table.hpp"
#include "bootstrap/stream.hpp"
#include "symccl/store.hpp"

namespace symccl::store_protocol {

inline constexpr std::uint64_t kMagic = 0x65726f74734c4353;  // "SCLstore"
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kGreetingBytes = 8 + 4 + 32;
inline constexpr std::size_t kAnswerBytes = 8 + 4 + 32 + 32;
inline constexpr std::size_t kVerdictBytes = 1 + 32;
inline constexpr std::size_t kMostFrameBytes = kMostKeyBytes + kMostValueBytes + 64;
/// A connection that has not proved itself after this long is dropped.
inline constexpr std::chrono::seconds kHandshakeTime{5};

enum class Ask : std::uint8_t { set = 1, get, add };
enum class Reply : std::uint8_t { done = 1, timeout, refused, closed };

Digest randomNonce();
Digest proof(const std::string& token, const char* who, const Digest& serverNonce, const Digest& clientNonce);

Bytes greeting(const Digest& serverNonce);
/// The verdict on a client's answer: whether it is right, and what to send back.
struct Verdict {
  bool accepted = false;
  Bytes reply;
};
Verdict judge(const std::string& token, const Digest& serverNonce, const Bytes& answer);

/// The client's part of the handshake on a connected socket. Code::invalid if either end does not know the token, or
/// speaks another version, or is no such store; Code::timeout, Code::dead.
Status introduce(int fd, const std::string& token, Deadline deadline, const Interrupted& interrupted);

/// `body` with its length in front.
Bytes framed(const Bytes& body);

}  // namespace symccl::store_protocol
