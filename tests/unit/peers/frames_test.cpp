#include "peers/frames.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

namespace symccl::frames {
namespace {

struct Pair {
  FileDescriptor a, b;
  Pair() {
    int both[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both) != 0) ADD_FAILURE();
    a = FileDescriptor(both[0]);
    b = FileDescriptor(both[1]);
  }
};

Bytes patterned(std::size_t bytes, unsigned seed) {
  Bytes out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::uint8_t>((i * 2654435761u + seed) >> 11);
  return out;
}

FileDescriptor memoryOf(off_t bytes) {
  FileDescriptor made(::memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(made.get(), bytes), 0);
  return made;
}

off_t sizeOf(int fd) {
  struct stat seen{};
  return ::fstat(fd, &seen) == 0 ? seen.st_size : -1;
}

/// Moves everything across and returns the frames.
std::vector<Frame> carry(Outbox& outbox, Pair& pair) {
  std::vector<Frame> frames;
  Inbox inbox;
  for (bool more = true; more;) {
    more = outbox.flush(pair.a.get()) == Outbox::Flushed::blocked;
    while (inbox.read(pair.b.get()) == Inbox::Read::some) {
      for (;;) {
        Result<std::optional<Frame>> frame = inbox.next();
        EXPECT_TRUE(frame);
        if (!frame || !*frame) break;
        frames.push_back(std::move(**frame));
      }
    }
  }
  return frames;
}

TEST(Frames, MessagesOfAllSizesInOrder) {
  Pair pair;
  Outbox outbox;
  std::vector<MessageFrame> sent;
  for (const std::size_t bytes : {0, 1, 13, 4095, 4097, 65531, 65535, 65536}) {
    sent.push_back({"topic " + std::to_string(bytes), patterned(bytes, static_cast<unsigned>(bytes))});
    outbox.push(encode(sent.back()), -1);
  }
  EXPECT_EQ(outbox.frames(), sent.size());
  const std::vector<Frame> got = carry(outbox, pair);
  EXPECT_EQ(outbox.frames(), 0u);
  ASSERT_EQ(got.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const auto message = readMessage(got[i].body);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->topic, sent[i].topic);
    EXPECT_TRUE(message->message == sent[i].message) << i;
  }
}

TEST(Frames, DescriptorsStayWithTheirFrames) {
  Pair pair;
  Outbox outbox;
  std::vector<FileDescriptor> memories;
  for (int i = 0; i < 20; ++i) {
    for (int k = 0; k < i % 4; ++k) outbox.push(encode(MessageFrame{"between", patterned(3000, 1)}), -1);
    memories.push_back(memoryOf(1000 + i));
    const HeapFrame offer{
        {{static_cast<std::uint64_t>(i), 9}}, static_cast<std::uint32_t>(i), 1000u + static_cast<unsigned>(i)};
    outbox.push(encode(offer), memories.back().get());
  }
  int heaps = 0;
  for (const Frame& frame : carry(outbox, pair)) {
    if (frame.kind == FrameKind::message) continue;
    const auto offer = readHeap(frame.body);
    ASSERT_TRUE(offer);
    EXPECT_EQ(offer->ordinal, static_cast<std::uint32_t>(heaps));
    ASSERT_TRUE(frame.descriptor);
    EXPECT_EQ(sizeOf(frame.descriptor.get()), 1000 + heaps);
    EXPECT_EQ(::fcntl(frame.descriptor.get(), F_GETFD), FD_CLOEXEC);
    ++heaps;
  }
  EXPECT_EQ(heaps, 20);
}

TEST(Frames, AnyCutOfTheStreamGivesTheSameFrames) {
  Bytes stream;
  std::vector<MessageFrame> sent;
  for (unsigned i = 0; i < 40; ++i) {
    sent.push_back({"t" + std::to_string(i), patterned(i * 37 % 300, i)});
    const Bytes one = encode(sent.back());
    stream.insert(stream.end(), one.begin(), one.end());
  }
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    Pair pair;
    Inbox inbox;
    std::size_t at = 0, got = 0;
    while (at < stream.size()) {
      const std::size_t piece = std::min<std::size_t>(1 + random() % 200, stream.size() - at);
      ASSERT_EQ(::write(pair.a.get(), stream.data() + at, piece), static_cast<ssize_t>(piece));
      at += piece;
      ASSERT_EQ(inbox.read(pair.b.get()), Inbox::Read::some);
      for (;;) {
        Result<std::optional<Frame>> frame = inbox.next();
        ASSERT_TRUE(frame);
        if (!*frame) break;
        const auto message = readMessage((*frame)->body);
        ASSERT_TRUE(message);
        EXPECT_EQ(message->topic, sent[got].topic);
        EXPECT_EQ(message->message, sent[got].message);
        ++got;
      }
    }
    EXPECT_EQ(got, sent.size());
  }
}

TEST(Frames, WhatCannotBeAFrameIsCorrupt) {
  const Bytes bad[] = {WireWriter().u32(1).u8(0).u8(0).take(), WireWriter().u32(1).u8(3).u8(0).take(),
                       WireWriter().u32(0xffffffff).u8(1).take(),
                       WireWriter().u32(static_cast<std::uint32_t>(kMostFrameBytes) + 1).u8(1).take()};
  for (const Bytes& bytes : bad) {
    Pair pair;
    ASSERT_EQ(::write(pair.a.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    Inbox inbox;
    ASSERT_EQ(inbox.read(pair.b.get()), Inbox::Read::some);
    Result<std::optional<Frame>> frame = inbox.next();
    ASSERT_FALSE(frame);
    EXPECT_EQ(frame.error().code(), Code::corrupt);
  }
}

TEST(Frames, BodiesAreBounded) {
  EXPECT_FALSE(readMessage(WireWriter().string(std::string(kMostTopicBytes + 1, 't')).string("").take()));
  EXPECT_FALSE(readMessage(WireWriter().string("t").string(std::string(kMostMessageBytes + 1, 'm')).take()));
  EXPECT_FALSE(readMessage(WireWriter().string("t").string("m").u8(0).take()));
  EXPECT_FALSE(readMessage({}));
  EXPECT_FALSE(readHeap(WireWriter().uuid({}).u32(1).take()));
  EXPECT_FALSE(readHeap(WireWriter().uuid({}).u32(1).u64(2).u8(0).take()));
}

TEST(Frames, RandomStreamsNeverHarm) {
  std::mt19937 random(17);
  for (int round = 0; round < 300; ++round) {
    Pair pair;
    Bytes bytes(random() % 3000);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random() % 5 ? random() % 3 : random());
    ASSERT_EQ(::write(pair.a.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    Inbox inbox;
    if (inbox.read(pair.b.get()) != Inbox::Read::some) continue;
    for (;;) {
      Result<std::optional<Frame>> frame = inbox.next();
      if (!frame || !*frame) break;
      static_cast<void>(readMessage((*frame)->body));
      static_cast<void>(readHeap((*frame)->body));
    }
  }
}

TEST(Frames, AHangUpComesAfterAllThatWasSent) {
  Pair pair;
  Outbox outbox;
  outbox.push(encode(MessageFrame{"last", {1, 2, 3}}), -1);
  ASSERT_EQ(outbox.flush(pair.a.get()), Outbox::Flushed::all);
  pair.a.reset();
  Inbox inbox;
  ASSERT_EQ(inbox.read(pair.b.get()), Inbox::Read::some);
  ASSERT_TRUE(*inbox.next());
  EXPECT_EQ(inbox.read(pair.b.get()), Inbox::Read::closed);
  EXPECT_EQ(outbox.flush(pair.b.get()), Outbox::Flushed::all) << "there is nothing to send";
  outbox.push({1}, -1);
  EXPECT_EQ(outbox.flush(pair.b.get()), Outbox::Flushed::closed);
}

}  // namespace
}  // namespace symccl::frames
