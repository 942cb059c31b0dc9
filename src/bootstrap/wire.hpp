// Fixed little encodings for what goes through a store or a link, with a decoder that trusts nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/host.hpp"
#include "symccl/store.hpp"

namespace symccl {

/// Appends fields, little-endian; strings with a 32-bit length.
class WireWriter {
 public:
  WireWriter& u8(std::uint8_t value);
  WireWriter& u32(std::uint32_t value);
  WireWriter& u64(std::uint64_t value);
  WireWriter& uuid(const Uuid& value);
  WireWriter& string(std::string_view value);
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

/// Reads them back. After a field that does not fit, ok() is false and every read gives zero or empty.
class WireReader {
 public:
  explicit WireReader(const Bytes& bytes) : bytes_(bytes) {}
  std::uint8_t u8();
  std::uint32_t u32();
  std::uint64_t u64();
  Uuid uuid();
  std::string string(std::size_t most = 4096);
  bool ok() const { return ok_; }
  /// ok, and nothing left.
  bool complete() const { return ok_ && at_ == bytes_.size(); }

 private:
  const std::uint8_t* take(std::size_t bytes);
  const Bytes& bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace symccl
