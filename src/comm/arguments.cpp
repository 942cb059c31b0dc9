#include "comm/arguments.hpp"

#include <limits>

#include "base/checks.hpp"
#include "collectives/buffers.hpp"
#include "collectives/call.hpp"

namespace symccl {

namespace {

// Offsets are 64-bit; half of the range leaves room for every sum of two.
constexpr std::size_t kMostBytes = std::numeric_limits<std::size_t>::max() / 4;

std::size_t blocksExpected(const Operation& op, bool send, bool isRoot, int size) {
  const auto all = static_cast<std::size_t>(size);
  switch (op.kind) {
    case Kind::allGatherV:
      return send ? 0 : all;
    case Kind::reduceScatterV:
      return send ? all : 0;
    case Kind::allToAllV:
      return all;
    case Kind::gatherV:
      return !send && isRoot ? all : 0;
    case Kind::scatterV:
      return send && isRoot ? all : 0;
    default:
      return 0;
  }
}

bool overlap(const Block& a, const Block& b) {
  const auto* x = static_cast<const std::byte*>(a.data);
  const auto* y = static_cast<const std::byte*>(b.data);
  return a.bytes != 0 && b.bytes != 0 && x < y + b.bytes && y < x + a.bytes;
}

Status checkBlocks(const Operation& op, int rank, int size) {
  const bool isRoot = rank == op.root;
  for (const bool send : {true, false}) {
    const auto& blocks = send ? op.sendBlocks : op.recvBlocks;
    const std::size_t expected = blocksExpected(op, send, isRoot, size);
    // Away from the root the blocks of a rooted kind are not looked at.
    if (hasRoot(op.kind) && !isRoot) continue;
    if (blocks.size() != expected) {
      return invalid(nameOf(op.kind), " on rank ", rank, ": ", blocks.size(), send ? " send" : " receive",
                     " blocks given, ", expected, " (one per rank) needed");
    }
  }
  const std::size_t element = sizeOf(op.type);
  Status status;
  eachBuffer(op, rank, size, [&](Role, const Block& block) {
    if (reduces(op.kind) && block.bytes % element != 0 && status) {
      status = invalid(nameOf(op.kind), " on rank ", rank, ": a block of ", block.bytes,
                       " bytes is no whole number of ", nameOf(op.type), " elements of ", element, " bytes");
    }
  });
  if (status && op.kind == Kind::allToAllV) {
    for (const Block& send : op.sendBlocks) {
      for (const Block& recv : op.recvBlocks) {
        if (overlap(send, recv))
          return invalid("all_to_all_v on rank ", rank, ": send and receive blocks overlap; they must not");
      }
    }
  }
  if (status && op.kind == Kind::reduceScatterV && op.sendBlocks[static_cast<std::size_t>(rank)].bytes != op.count) {
    status = invalid("reduce_scatter_v on rank ", rank, ": the send block for this rank has ",
                     op.sendBlocks[static_cast<std::size_t>(rank)].bytes, " bytes, the receive block ", op.count);
  }
  return status;
}

}  // namespace

Status checkArguments(const Operation& op, int rank, int size) {
  const auto kind = static_cast<int>(op.kind);
  if (kind < static_cast<int>(Kind::barrier) || kind > static_cast<int>(Kind::scatterV))
    return invalid("unknown kind of operation: ", kind);
  if (op.kind == Kind::barrier) return {};
  if (static_cast<int>(op.type) >= kDataTypes)
    return invalid(nameOf(op.kind), ": unknown data type ", static_cast<int>(op.type));
  if (hasRoot(op.kind) && (op.root < 0 || op.root >= size)) {
    return invalid(nameOf(op.kind), " on rank ", rank, ": root ", op.root, " is not a rank; ranks are 0..", size - 1);
  }
  if (reduces(op.kind)) {
    if (static_cast<int>(op.op) >= kReduceOps)
      return invalid(nameOf(op.kind), ": unknown reduction ", static_cast<int>(op.op));
    if (!reducible(op.type, op.op)) {
      return Error(Code::unsupported, text(nameOf(op.kind), " on rank ", rank, ": reduction ", nameOf(op.op),
                                           " is not defined for ", nameOf(op.type)));
    }
  }
  if (op.count > kMostBytes / sizeOf(op.type) / static_cast<std::size_t>(size)) {
    return invalid(nameOf(op.kind), " on rank ", rank, ": count ", op.count, " does not fit into the address space");
  }
  Status status;
  eachBuffer(op, rank, size, [&](Role role, const Block& block) {
    if (!status) return;
    if (block.data == nullptr && block.bytes != 0) {
      status = invalid(nameOf(op.kind), " on rank ", rank, ": the ", role == Role::input ? "send" : "receive",
                       " buffer is null but ", block.bytes, " bytes are needed");
    } else if (block.bytes > kMostBytes) {
      status = invalid(nameOf(op.kind), " on rank ", rank, ": a block of ", block.bytes,
                       " bytes does not fit into the address space");
    }
  });
  if (!status || !isV(op.kind)) return status;
  return checkBlocks(op, rank, size);
}

}  // namespace symccl
