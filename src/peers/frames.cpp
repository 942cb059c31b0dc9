#include "peers/frames.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "base/checks.hpp"

namespace symccl::frames {
namespace {

constexpr std::size_t kHeadBytes = 5;
constexpr std::size_t kMostDescriptors = 128;  // of frames that are not whole yet

Bytes frameOf(FrameKind kind, const Bytes& body) {
  WireWriter head;
  head.u32(static_cast<std::uint32_t>(body.size())).u8(static_cast<std::uint8_t>(kind));
  Bytes frame = head.take();
  frame.insert(frame.end(), body.begin(), body.end());
  return frame;
}

/// Space for one descriptor beside a message.
union Control {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr align;
};

ssize_t sendPart(int socket, const std::uint8_t* from, std::size_t bytes, int descriptor) {
  iovec part{const_cast<std::uint8_t*>(from), bytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  Control control{};
  if (descriptor >= 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

Bytes encode(const MessageFrame& frame) {
  WireWriter out;
  out.string(frame.topic).string({reinterpret_cast<const char*>(frame.message.data()), frame.message.size()});
  return frameOf(FrameKind::message, out.take());
}

Bytes encode(const HeapFrame& frame) {
  return frameOf(FrameKind::heap, WireWriter().uuid(frame.id).u32(frame.ordinal).u64(frame.bytes).take());
}

std::optional<MessageFrame> readMessage(const Bytes& body) {
  WireReader in(body);
  MessageFrame frame;
  frame.topic = in.string(kMostTopicBytes);
  const std::string message = in.string(kMostMessageBytes);
  if (!in.complete()) return std::nullopt;
  frame.message.assign(message.begin(), message.end());
  return frame;
}

std::optional<HeapFrame> readHeap(const Bytes& body) {
  WireReader in(body);
  const HeapFrame frame{in.uuid(), in.u32(), in.u64()};
  if (!in.complete()) return std::nullopt;
  return frame;
}

Outbox::Flushed Outbox::flush(int socket) {
  while (!waiting_.empty()) {
    Waiting& first = waiting_.front();
    const int descriptor = first.sent == 0 ? first.descriptor : -1;
    const ssize_t put = sendPart(socket, first.bytes.data() + first.sent, first.bytes.size() - first.sent, descriptor);
    if (put < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return Flushed::blocked;
      if (errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM) return Flushed::congested;
      return Flushed::closed;
    }
    first.sent += static_cast<std::size_t>(put);
    if (first.sent == first.bytes.size()) waiting_.pop_front();
  }
  return Flushed::all;
}

Inbox::Read Inbox::read(int socket) {
  std::uint8_t chunk[65536];
  iovec part{chunk, sizeof chunk};
  Control control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return errno == EAGAIN ? Read::nothing : Read::closed;
  if (got == 0) return Read::closed;
  in_.insert(in_.end(), chunk, chunk + got);
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS || head->cmsg_len < CMSG_LEN(sizeof(int)))
      continue;
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(head), sizeof descriptor);
    descriptors_.emplace_back(descriptor);
  }
  // Truncated: the descriptor was thrown away because this process may not open another one.
  if ((message.msg_flags & MSG_CTRUNC) != 0) descriptors_.emplace_back();
  return Read::some;
}

Result<std::optional<Frame>> Inbox::next() {
  WireReader head(in_);
  const std::uint32_t bytes = head.u32();
  const std::uint8_t kind = head.u8();
  if (!head.ok()) return std::optional<Frame>();
  const bool known =
      kind == static_cast<std::uint8_t>(FrameKind::message) || kind == static_cast<std::uint8_t>(FrameKind::heap);
  if (!known || bytes > kMostFrameBytes || descriptors_.size() > kMostDescriptors) {
    return Error(Code::corrupt, text("a frame of kind ", int{kind}, " with ", bytes, " bytes came over a link"));
  }
  if (in_.size() < kHeadBytes + bytes) return std::optional<Frame>();
  const auto body = in_.begin() + static_cast<std::ptrdiff_t>(kHeadBytes);
  Frame frame{static_cast<FrameKind>(kind), Bytes(body, body + bytes), {}};
  in_.erase(in_.begin(), body + bytes);
  if (frame.kind == FrameKind::heap && !descriptors_.empty()) {
    frame.descriptor = std::move(descriptors_.front());
    descriptors_.pop_front();
  }
  return std::optional<Frame>(std::move(frame));
}

}  // namespace symccl::frames
