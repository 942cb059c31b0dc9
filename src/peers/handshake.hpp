// What two processes say to each other before they are linked. The one with the smaller id connects.
//
//   connector -> acceptor   head, { the acceptor's id, the connector's entry }
//   acceptor  -> connector  head, { 1 } or { 0, code, sentence }, and then the connection closes
//   connector -> acceptor   one byte; then frames (frames.hpp) go both ways
//
// Both heads have { magic, version, bytes that follow }, so that versions can be told apart whatever follows. Without
// the last byte, a connector that gave up while the acceptor was stopped would look like one that was linked and then
// died.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "bootstrap/wire.hpp"
#include "peers/process_entry.hpp"
#include "symccl/result.hpp"

namespace symccl {

/// Protocol version and layout, compared in the handshake.
inline constexpr std::uint32_t kLinkVersion = 1;

namespace handshake {

inline constexpr std::uint64_t kMagic = 0x6b6e696c4c434353;  // "SCCLlink"
inline constexpr std::size_t kHeadBytes = 16;
inline constexpr std::size_t kMostBodyBytes = 2048;
inline constexpr std::uint8_t kLinked = 0x4c;

/// The abstract name of the process's listening socket.
std::string socketName(const Uuid& process);

struct Head {
  std::uint32_t version = 0;
  std::uint32_t bodyBytes = 0;
};
/// The head, or nothing if it is not one.
std::optional<Head> readHead(const Bytes& bytes);

struct Hello {
  Uuid to;
  ProcessEntry from;
};
Bytes encode(const Hello& hello, std::uint32_t version = kLinkVersion);
/// The body of a hello, or nothing if it is malformed.
std::optional<Hello> readHello(const Bytes& body);

Bytes encodeWelcome();
Bytes encodeRefusal(const Error& reason);
/// Success, the refusal, or Code::corrupt.
Status readReply(const Bytes& body);

}  // namespace handshake
}  // namespace symccl
