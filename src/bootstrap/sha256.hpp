// SHA-256 (FIPS 180-4) and HMAC (RFC 2104): the store's proof that both ends know a token without sending it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace symccl {

using Digest = std::array<std::uint8_t, 32>;

Digest sha256(std::string_view message);
Digest hmacSha256(std::string_view key, std::string_view message);
/// Whether they are equal, in a time that does not tell where they differ.
bool sameDigest(const Digest& a, const Digest& b);
/// 64 lower-case hexadecimal digits.
std::string hex(const Digest& digest);

}  // namespace symccl
