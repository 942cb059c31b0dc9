#include "collectives/call.hpp"

#include <bit>
#include <cstring>

#include "base/checks.hpp"

namespace symccl {

namespace {

// The signature word: kind 8, type 8, op 8, flags 8, root 16, inline count 16 bits.
constexpr unsigned kFormMask = 3, kSendLocated = 4, kRecvLocated = 8, kInPlace = 16;

std::uint64_t signatureOf(const Call& call) {
  const unsigned flags = static_cast<unsigned>(call.form) | (call.sendLocated ? kSendLocated : 0u) |
                         (call.recvLocated ? kRecvLocated : 0u) | (call.inPlace ? kInPlace : 0u);
  const std::uint64_t inlineCount = call.form == Form::inlined ? call.count : 0;
  return static_cast<std::uint64_t>(call.kind) | static_cast<std::uint64_t>(call.type) << 8 |
         static_cast<std::uint64_t>(call.op) << 16 | static_cast<std::uint64_t>(flags) << 24 |
         static_cast<std::uint64_t>(call.root) << 32 | inlineCount << 48;
}

}  // namespace

const char* nameOf(Kind kind) {
  switch (kind) {
    case Kind::barrier:
      return "barrier";
    case Kind::broadcast:
      return "broadcast";
    case Kind::allReduce:
      return "all_reduce";
    case Kind::reduce:
      return "reduce";
    case Kind::allGather:
      return "all_gather";
    case Kind::reduceScatter:
      return "reduce_scatter";
    case Kind::allToAll:
      return "all_to_all";
    case Kind::gather:
      return "gather";
    case Kind::scatter:
      return "scatter";
    case Kind::allGatherV:
      return "all_gather_v";
    case Kind::reduceScatterV:
      return "reduce_scatter_v";
    case Kind::allToAllV:
      return "all_to_all_v";
    case Kind::gatherV:
      return "gather_v";
    case Kind::scatterV:
      return "scatter_v";
  }
  return "unknown";
}

bool isV(Kind kind) { return kind >= Kind::allGatherV; }

bool reduces(Kind kind) { return kind == Kind::allReduce || kind == Kind::reduce || scatters(kind); }

bool scatters(Kind kind) { return kind == Kind::reduceScatter || kind == Kind::reduceScatterV; }

bool hasRoot(Kind kind) {
  switch (kind) {
    case Kind::broadcast:
    case Kind::reduce:
    case Kind::gather:
    case Kind::scatter:
    case Kind::gatherV:
    case Kind::scatterV:
      return true;
    default:
      return false;
  }
}

std::uint64_t offeredBytes(Kind kind, std::uint64_t countBytes, int size) {
  const bool perRank = kind == Kind::reduceScatter || kind == Kind::allToAll || kind == Kind::scatter;
  return perRank ? countBytes * static_cast<std::uint64_t>(size) : countBytes;
}

Form formFor(std::uint64_t offered, ReduceOp op, Kind kind) {
  // A pre-multiplied sum needs the words of the inline payload for its factor.
  if (offered <= kInlineBytes && !isV(kind) && !(reduces(kind) && op == ReduceOp::premulSum)) return Form::inlined;
  return offered < kEagerBytes ? Form::eager : Form::buffers;
}

std::array<std::uint64_t, 7> Call::encode() const {
  std::array<std::uint64_t, 7> words{};
  words[0] = signatureOf(*this);
  if (form == Form::inlined) {
    std::memcpy(&words[1], payload.data(), payload.size());
  } else {
    words[1] = count;
    words[2] = send;
    words[3] = recv;
    words[4] = std::bit_cast<std::uint64_t>(factor);
    words[5] = given;
    words[6] = expected;
  }
  return words;
}

Result<Call> Call::decode(const Announcement& announcement, int rank, int size) {
  const std::uint64_t signature = announcement.words[0];
  const auto flags = static_cast<unsigned>(signature >> 24 & 0xff);
  const auto field = [&](int shift) { return static_cast<int>(signature >> shift & 0xff); };
  Call call;
  call.root = static_cast<int>(signature >> 32 & 0xffff);
  if (field(0) < static_cast<int>(Kind::barrier) || field(0) > static_cast<int>(Kind::scatterV) ||
      field(8) >= kDataTypes || field(16) >= kReduceOps || (flags & kFormMask) > static_cast<unsigned>(Form::buffers) ||
      call.root >= size) {
    return Error(Code::corrupt,
                 text("rank ", rank, " published an announcement that cannot be (signature ", signature, ")"), rank);
  }
  call.kind = static_cast<Kind>(field(0));
  call.type = static_cast<DataType>(field(8));
  call.op = static_cast<ReduceOp>(field(16));
  call.form = static_cast<Form>(flags & kFormMask);
  call.sendLocated = (flags & kSendLocated) != 0;
  call.recvLocated = (flags & kRecvLocated) != 0;
  call.inPlace = (flags & kInPlace) != 0;
  if (call.form == Form::inlined) {
    call.count = signature >> 48;
    std::memcpy(call.payload.data(), &announcement.words[1], call.payload.size());
  } else {
    call.count = announcement.words[1];
    call.send = announcement.words[2];
    call.recv = announcement.words[3];
    call.factor = std::bit_cast<double>(announcement.words[4]);
    call.given = announcement.words[5];
    call.expected = announcement.words[6];
  }
  return call;
}

bool Call::sameAs(const Call& other) const {
  return kind == other.kind && type == other.type && op == other.op && root == other.root &&
         (isV(kind) || (count == other.count && form == other.form));
}

std::string Call::describe() const {
  std::string what = nameOf(kind);
  if (kind == Kind::barrier) return what;
  what += text(" ", nameOf(type));
  if (!isV(kind)) what += text(" x ", count);
  if (reduces(kind)) what += text(" ", nameOf(op));
  if (hasRoot(kind)) what += text(" root ", root);
  return what;
}

}  // namespace symccl
