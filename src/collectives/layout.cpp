#include "collectives/layout.hpp"

#include "base/checks.hpp"

namespace symccl {

namespace {

const std::byte* bytesAt(const void* data) { return static_cast<const std::byte*>(data); }
std::byte* bytesAt(void* data) { return static_cast<std::byte*>(data); }

// Away from the root a rooted kind may have no blocks at all.
Block blockOf(std::span<const Block> blocks, int peer) {
  const auto index = static_cast<std::size_t>(peer);
  return index < blocks.size() ? blocks[index] : Block{};
}

}  // namespace

std::size_t Layout::uniformBytes(int from, int to) const {
  switch (own_.kind) {
    case Kind::barrier:
      return 0;
    case Kind::broadcast:
      return from == own_.root && to != own_.root ? countBytes() : 0;
    case Kind::gather:
      return to == own_.root ? countBytes() : 0;
    case Kind::scatter:
      return from == own_.root ? countBytes() : 0;
    default:
      return countBytes();
  }
}

// v kinds with one block on a side hold it in send or recv, with its bytes in count.
std::size_t Layout::bytesTo(int peer) const {
  switch (own_.kind) {
    case Kind::allGatherV:
      return own_.count;
    case Kind::gatherV:
      return peer == own_.root ? own_.count : 0;
    case Kind::scatterV:
      return rank() == own_.root ? blockOf(own_.sendBlocks, peer).bytes : 0;
    case Kind::reduceScatterV:
    case Kind::allToAllV:
      return blockOf(own_.sendBlocks, peer).bytes;
    default:
      return uniformBytes(rank(), peer);
  }
}

const std::byte* Layout::outgoing(int peer) const {
  switch (own_.kind) {
    case Kind::reduceScatter:
    case Kind::allToAll:
    case Kind::scatter:
      return bytesAt(own_.send) + part(peer);
    case Kind::reduceScatterV:
    case Kind::allToAllV:
    case Kind::scatterV:
      return bytesAt(blockOf(own_.sendBlocks, peer).data);
    default:
      return bytesAt(own_.send);
  }
}

std::size_t Layout::bytesFrom(int peer) const {
  switch (own_.kind) {
    case Kind::reduceScatterV:
      return own_.count;
    case Kind::scatterV:
      return peer == own_.root ? own_.count : 0;
    case Kind::gatherV:
      return rank() == own_.root ? blockOf(own_.recvBlocks, peer).bytes : 0;
    case Kind::allGatherV:
    case Kind::allToAllV:
      return blockOf(own_.recvBlocks, peer).bytes;
    default:
      return uniformBytes(peer, rank());
  }
}

std::byte* Layout::incoming(int peer) const {
  switch (own_.kind) {
    case Kind::allGather:
    case Kind::allToAll:
    case Kind::gather:
      return bytesAt(own_.recv) + part(peer);
    case Kind::allGatherV:
    case Kind::allToAllV:
    case Kind::gatherV:
      return bytesAt(blockOf(own_.recvBlocks, peer).data);
    default:
      return bytesAt(own_.recv);
  }
}

const std::byte* Layout::source(int peer) const {
  if (peer == rank()) return outgoing(peer);
  if (isV(own_.kind)) return at(peer, group_.area(peer).tableEntry(n_, rank()).sendLocation.get());
  std::uint64_t location = calls_[static_cast<std::size_t>(peer)].send;
  if (own_.kind == Kind::reduceScatter || own_.kind == Kind::allToAll || own_.kind == Kind::scatter)
    location += part(rank());
  return at(peer, location);
}

std::byte* Layout::target(int peer) const {
  if (peer == rank()) return incoming(peer);
  if (isV(own_.kind)) return at(peer, group_.area(peer).tableEntry(n_, rank()).recvLocation.get());
  std::uint64_t location = calls_[static_cast<std::size_t>(peer)].recv;
  if (own_.kind == Kind::allGather || own_.kind == Kind::allToAll || own_.kind == Kind::gather)
    location += part(rank());
  return at(peer, location);
}

std::size_t Layout::rowOffset(int peer) const {
  switch (own_.kind) {
    case Kind::reduceScatter:
    case Kind::allToAll:
    case Kind::scatter:
      return part(rank());
    case Kind::reduceScatterV:
    case Kind::allToAllV:
    case Kind::scatterV:
      break;
    default:
      return 0;
  }
  std::size_t offset = 0;
  for (int before = 0; before < rank(); ++before) {
    offset += peer == rank() ? bytesTo(before) : group_.area(peer).tableEntry(n_, before).sendBytes.get();
  }
  return offset;
}

bool Layout::sameForAll() const {
  return own_.kind == Kind::broadcast || own_.kind == Kind::allGather || own_.kind == Kind::allGatherV;
}

namespace {

// One pair's part of a digest (the finalizer of splitmix64, Steele et al. 2014). The sum over all that is given equals
// the sum over all that is expected if every pair agrees, and else hardly ever.
std::uint64_t digest(int sender, int receiver, std::uint64_t bytes) {
  std::uint64_t x = bytes + 0x9e3779b97f4a7c15 * static_cast<unsigned>(sender * 65536 + receiver + 1);
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

}  // namespace

void Layout::describe(std::uint64_t n, const Heap& heap, Call& call) const {
  const auto location = [&](const std::byte* data) {
    const bool inside = data >= heap.base() && data < heap.base() + heap.bytes();
    return inside ? static_cast<std::uint64_t>(data - heap.base()) : kPrivate;
  };
  call.count = call.given = call.expected = 0;
  for (int peer = 0; peer < group_.size(); ++peer) {
    const std::uint64_t sends = bytesTo(peer), expects = bytesFrom(peer);
    TableEntry& entry = group_.ownArea().tableEntry(n, peer);
    entry.sendBytes.put(sends);
    entry.sendLocation.put(location(outgoing(peer)));
    entry.recvBytes.put(expects);
    entry.recvLocation.put(location(incoming(peer)));
    if (peer == rank()) continue;
    call.count = std::max(call.count, sends);
    call.given += digest(rank(), peer, sends);
    call.expected += digest(peer, rank(), expects);
  }
}

Status Layout::verifySizes() const {
  std::uint64_t difference = 0;
  for (const Call& call : calls_) difference += call.given - call.expected;
  if (difference == 0) return {};
  for (int sender = 0; sender < group_.size(); ++sender) {
    for (int receiver = 0; receiver < group_.size(); ++receiver) {
      const std::uint64_t sends = group_.area(sender).tableEntry(n_, receiver).sendBytes.get();
      const std::uint64_t expects = group_.area(receiver).tableEntry(n_, sender).recvBytes.get();
      if (sender == receiver || sends == expects) continue;
      return Error(Code::mismatch,
                   text("rank ", sender, " sends ", sends, " bytes to rank ", receiver, ", which expects ", expects),
                   sender);
    }
  }
  return Error(Code::corrupt, "the announced digests of the sizes differ, but no size does");
}

Status Layout::verifyLocations(int peer) const {
  const Call& call = calls_[static_cast<std::size_t>(peer)];
  const std::size_t heapBytes = group_.place(peer).heapBytes;
  const auto fits = [&](std::uint64_t location, std::uint64_t bytes) {
    return bytes <= heapBytes && location <= heapBytes - bytes;
  };
  bool sound = true;
  if (isV(own_.kind)) {
    const TableEntry& entry = group_.area(peer).tableEntry(n_, rank());
    if (call.sendLocated && bytesFrom(peer) != 0) sound = fits(entry.sendLocation.get(), bytesFrom(peer));
    if (call.recvLocated && bytesTo(peer) != 0) sound = sound && fits(entry.recvLocation.get(), bytesTo(peer));
  } else if (call.form == Form::buffers) {
    // What is multiplied here was checked when this rank described its own, equal, operation.
    const bool wideOutput = own_.kind == Kind::allGather || own_.kind == Kind::allToAll || own_.kind == Kind::gather;
    const std::size_t output = wideOutput ? part(group_.size()) : countBytes();
    if (call.sendLocated && call.send != kPrivate)
      sound = fits(call.send, offeredBytes(own_.kind, countBytes(), group_.size()));
    if (call.recvLocated && call.recv != kPrivate) sound = sound && fits(call.recv, output);
  }
  if (sound) return {};
  return Error(Code::corrupt, text("rank ", peer, " announced a buffer outside its heap of ", heapBytes, " bytes"),
               peer);
}

Status Layout::verify() const {
  if (isV(own_.kind)) {
    if (Status status = verifySizes(); !status) return status;
  }
  for (int peer = 0; peer < group_.size(); ++peer) {
    if (peer == rank()) continue;
    if (Status status = verifyLocations(peer); !status) return status;
  }
  return {};
}

}  // namespace symccl
