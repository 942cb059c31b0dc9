#include "bootstrap/wire.hpp"

namespace symccl {

WireWriter& WireWriter::u8(std::uint8_t value) {
  bytes_.push_back(value);
  return *this;
}

WireWriter& WireWriter::u32(std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) bytes_.push_back(static_cast<std::uint8_t>(value >> shift));
  return *this;
}

WireWriter& WireWriter::u64(std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) bytes_.push_back(static_cast<std::uint8_t>(value >> shift));
  return *this;
}

WireWriter& WireWriter::uuid(const Uuid& value) { return u64(value.words[0]).u64(value.words[1]); }

WireWriter& WireWriter::string(std::string_view value) {
  u32(static_cast<std::uint32_t>(value.size()));
  bytes_.insert(bytes_.end(), value.begin(), value.end());
  return *this;
}

const std::uint8_t* WireReader::take(std::size_t bytes) {
  if (!ok_ || bytes > bytes_.size() - at_) {
    ok_ = false;
    return nullptr;
  }
  const std::uint8_t* here = bytes_.data() + at_;
  at_ += bytes;
  return here;
}

std::uint8_t WireReader::u8() {
  const std::uint8_t* from = take(1);
  return from ? *from : 0;
}

std::uint32_t WireReader::u32() {
  const std::uint8_t* from = take(4);
  std::uint32_t value = 0;
  if (from) {
    for (int i = 3; i >= 0; --i) value = value << 8 | from[i];
  }
  return value;
}

std::uint64_t WireReader::u64() {
  const std::uint8_t* from = take(8);
  std::uint64_t value = 0;
  if (from) {
    for (int i = 7; i >= 0; --i) value = value << 8 | from[i];
  }
  return value;
}

Uuid WireReader::uuid() {
  Uuid value;
  value.words[0] = u64();
  value.words[1] = u64();
  return ok_ ? value : Uuid{};
}

std::string WireReader::string(std::size_t most) {
  const std::uint32_t bytes = u32();
  if (bytes > most) ok_ = false;
  const std::uint8_t* from = take(bytes);
  return from ? std::string(from, from + bytes) : std::string();
}

}  // namespace symccl
