#include "bootstrap/wire.hpp"

#include <gtest/gtest.h>

#include <random>

namespace symccl {
namespace {

Bytes sample() {
  WireWriter out;
  out.u8(0xab).u32(0x01020304).u64(0x1122334455667788).uuid({{7, ~0ull}}).string("ring").string("").u8(1);
  return out.take();
}

TEST(Wire, LittleEndian) {
  EXPECT_EQ(WireWriter().u32(0x01020304).take(), (Bytes{4, 3, 2, 1}));
  EXPECT_EQ(WireWriter().u64(0x1122334455667788).take(), (Bytes{0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11}));
  EXPECT_EQ(WireWriter().string("ab").take(), (Bytes{2, 0, 0, 0, 'a', 'b'}));
}

TEST(Wire, ReadsBackWhatWasWritten) {
  const Bytes bytes = sample();
  WireReader in(bytes);
  EXPECT_EQ(in.u8(), 0xab);
  EXPECT_EQ(in.u32(), 0x01020304u);
  EXPECT_EQ(in.u64(), 0x1122334455667788u);
  EXPECT_EQ(in.uuid(), (Uuid{{7, ~0ull}}));
  EXPECT_EQ(in.string(), "ring");
  EXPECT_EQ(in.string(), "");
  EXPECT_FALSE(in.complete());
  EXPECT_EQ(in.u8(), 1);
  EXPECT_TRUE(in.complete());
}

TEST(Wire, AfterAFieldThatDoesNotFitEverythingIsZero) {
  const Bytes bytes{1, 2, 3};
  WireReader in(bytes);
  EXPECT_EQ(in.u32(), 0u);
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.u8(), 0) << "three bytes are left, but the reader has given up";
  EXPECT_EQ(in.uuid(), Uuid{});
  EXPECT_EQ(in.string(), "");
  EXPECT_FALSE(in.complete());
}

TEST(Wire, EveryTruncationIsNoticed) {
  const Bytes whole = sample();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
    WireReader in(part);
    in.u8(), in.u32(), in.u64(), in.uuid(), in.string(), in.string(), in.u8();
    EXPECT_FALSE(in.ok()) << bytes << " bytes";
  }
}

TEST(Wire, StringsAreBounded) {
  const Bytes bytes = WireWriter().string(std::string(100, 'x')).take();
  WireReader fits(bytes), refused(bytes);
  EXPECT_EQ(fits.string(100).size(), 100u);
  EXPECT_TRUE(fits.complete());
  EXPECT_EQ(refused.string(99), "");
  EXPECT_FALSE(refused.ok());
}

TEST(Wire, ALengthBeyondTheBufferReadsNothing) {
  const Bytes bytes{0xff, 0xff, 0xff, 0xff, 'a'};
  WireReader in(bytes);
  EXPECT_EQ(in.string(std::size_t{1} << 40), "");
  EXPECT_FALSE(in.ok());
}

TEST(Wire, RandomBytesNeverReadOutside) {
  std::mt19937 random(20261130);
  for (int round = 0; round < 20000; ++round) {
    // Exactly sized on the heap, so that AddressSanitizer sees a byte too far.
    Bytes bytes(random() % 40);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random() % 3 ? random() % 8 : random());
    bytes.shrink_to_fit();
    WireReader in(bytes);
    for (int field = 0; field < 8; ++field) {
      switch (random() % 5) {
        case 0:
          in.u8();
          break;
        case 1:
          in.u32();
          break;
        case 2:
          in.u64();
          break;
        case 3:
          in.uuid();
          break;
        default:
          EXPECT_LE(in.string(16).size(), 16u);
      }
    }
    EXPECT_TRUE(!in.complete() || in.ok());
  }
}

}  // namespace
}  // namespace symccl
