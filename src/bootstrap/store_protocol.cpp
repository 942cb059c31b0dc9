#include "bootstrap/store_protocol.hpp"

#include <cstring>

#include "base/checks.hpp"
#include "base/host.hpp"
#include "bootstrap/wire.hpp"

namespace symccl::store_protocol {
namespace {

void append(WireWriter& out, const Digest& digest) {
  for (const std::uint8_t byte : digest) out.u8(byte);
}

Digest readDigest(WireReader& in) {
  Digest digest;
  for (std::uint8_t& byte : digest) byte = in.u8();
  return digest;
}

}  // namespace

Digest randomNonce() {
  WireWriter out;
  out.uuid(randomUuid()).uuid(randomUuid());
  const Bytes random = out.take();
  Digest nonce;
  std::memcpy(nonce.data(), random.data(), nonce.size());
  return nonce;
}

Digest proof(const std::string& token, const char* who, const Digest& serverNonce, const Digest& clientNonce) {
  std::string message = std::string("SymCCL store ") + who + '\0';
  message.append(serverNonce.begin(), serverNonce.end());
  message.append(clientNonce.begin(), clientNonce.end());
  return hmacSha256(token, message);
}

Bytes greeting(const Digest& serverNonce) {
  WireWriter out;
  out.u64(kMagic).u32(kVersion);
  append(out, serverNonce);
  return out.take();
}

Verdict judge(const std::string& token, const Digest& serverNonce, const Bytes& answer) {
  WireReader in(answer);
  const bool speaks = in.u64() == kMagic && in.u32() == kVersion;
  const Digest clientNonce = readDigest(in);
  const Digest given = readDigest(in);
  Verdict verdict;
  verdict.accepted = in.complete() && speaks && sameDigest(given, proof(token, "client", serverNonce, clientNonce));
  WireWriter out;
  out.u8(verdict.accepted ? 1 : 0);
  append(out, verdict.accepted ? proof(token, "server", serverNonce, clientNonce) : Digest{});
  verdict.reply = out.take();
  return verdict;
}

Status introduce(int fd, const std::string& token, Deadline deadline, const Interrupted& interrupted) {
  Bytes bytes(kGreetingBytes);
  if (Status status = receiveAll(fd, bytes.data(), bytes.size(), deadline, interrupted); !status) return status;
  WireReader in(bytes);
  if (in.u64() != kMagic) return invalid("what answers there is not a SymCCL store");
  if (const std::uint32_t version = in.u32(); version != kVersion) {
    return invalid("the store speaks version ", version, ", this process version ", kVersion);
  }
  const Digest serverNonce = readDigest(in), clientNonce = randomNonce();

  WireWriter out;
  out.u64(kMagic).u32(kVersion);
  append(out, clientNonce);
  append(out, proof(token, "client", serverNonce, clientNonce));
  const Bytes answer = out.take();
  if (Status status = sendAll(fd, answer.data(), answer.size(), deadline, interrupted); !status) return status;

  Bytes reply(kVerdictBytes);
  if (Status status = receiveAll(fd, reply.data(), reply.size(), deadline, interrupted); !status) return status;
  WireReader verdict(reply);
  if (verdict.u8() != 1)
    return invalid("the store refused this process's token: it is another job's, or SYMCCL_TOKEN differs");
  if (!sameDigest(readDigest(verdict), proof(token, "server", serverNonce, clientNonce))) {
    return invalid("the store does not know this process's token: it is not this job's");
  }
  return {};
}

Bytes framed(const Bytes& body) {
  Bytes frame = WireWriter().u32(static_cast<std::uint32_t>(body.size())).take();
  frame.insert(frame.end(), body.begin(), body.end());
  return frame;
}

}  // namespace symccl::store_protocol
