#include "peers/handshake.hpp"

#include "base/checks.hpp"

namespace symccl::handshake {
namespace {

Bytes withHead(const Bytes& body, std::uint32_t version) {
  WireWriter head;
  head.u64(kMagic).u32(version).u32(static_cast<std::uint32_t>(body.size()));
  Bytes whole = head.take();
  whole.insert(whole.end(), body.begin(), body.end());
  return whole;
}

}  // namespace

std::string socketName(const Uuid& process) { return "symccl-" + process.hex(); }

std::optional<Head> readHead(const Bytes& bytes) {
  WireReader in(bytes);
  const bool magic = in.u64() == kMagic;
  const Head head{in.u32(), in.u32()};
  if (!in.ok() || !magic || head.bodyBytes > kMostBodyBytes) return std::nullopt;
  return head;
}

Bytes encode(const Hello& hello, std::uint32_t version) {
  WireWriter out;
  out.uuid(hello.to);
  hello.from.write(out);
  return withHead(out.take(), version);
}

std::optional<Hello> readHello(const Bytes& body) {
  WireReader in(body);
  Hello hello;
  hello.to = in.uuid();
  hello.from = ProcessEntry::read(in);
  if (!in.complete()) return std::nullopt;
  return hello;
}

Bytes encodeWelcome() { return withHead({1}, kLinkVersion); }

Bytes encodeRefusal(const Error& reason) {
  WireWriter out;
  out.u8(0).u8(static_cast<std::uint8_t>(reason.code())).string(reason.message().substr(0, 1024));
  return withHead(out.take(), kLinkVersion);
}

Status readReply(const Bytes& body) {
  WireReader in(body);
  if (in.u8() == 1 && in.complete()) return {};
  const std::uint8_t code = in.u8();
  const std::string sentence = in.string(1024);
  if (!in.complete() || code > static_cast<std::uint8_t>(Code::internal)) {
    return Error(Code::corrupt, "the answer to the request for a link is malformed");
  }
  return Error(static_cast<Code>(code), sentence);
}

}  // namespace symccl::handshake
