// The buffers that an operation names on one rank.
#pragma once

#include <cstddef>

#include "symccl/communicator.hpp"

namespace symccl {

enum class Role : bool { input, output };

/// Calls `visit(role, block)` for each buffer that `op` reads or writes on `rank` of `size`; buffers that do not matter
/// on this rank (such as the output of a reduce away from its root) are left out.
template <class Visit>
void eachBuffer(const Operation& op, int rank, int size, Visit&& visit) {
  const bool isRoot = rank == op.root;
  const std::size_t one = op.count * sizeOf(op.type);
  const std::size_t all = one * static_cast<std::size_t>(size);
  const auto input = [&](std::size_t bytes) { visit(Role::input, Block{const_cast<void*>(op.send), bytes}); };
  const auto output = [&](std::size_t bytes) { visit(Role::output, Block{op.recv, bytes}); };
  const auto inputs = [&] {
    for (const Block& block : op.sendBlocks) visit(Role::input, block);
  };
  const auto outputs = [&] {
    for (const Block& block : op.recvBlocks) visit(Role::output, block);
  };
  switch (op.kind) {
    case Kind::barrier:
      return;
    case Kind::broadcast:
      return isRoot ? input(one) : output(one);
    case Kind::allReduce:
      return input(one), output(one);
    case Kind::reduce:
      return input(one), isRoot ? output(one) : void();
    case Kind::allGather:
      return input(one), output(all);
    case Kind::reduceScatter:
      return input(all), output(one);
    case Kind::allToAll:
      return input(all), output(all);
    case Kind::gather:
      return input(one), isRoot ? output(all) : void();
    case Kind::scatter:
      return isRoot ? input(all) : void(), output(one);
    // The single block of a v kind stands in send or recv, its bytes in count.
    case Kind::allGatherV:
      return input(op.count), outputs();
    case Kind::gatherV:
      return input(op.count), isRoot ? outputs() : void();
    case Kind::scatterV:
      return isRoot ? inputs() : void(), output(op.count);
    case Kind::reduceScatterV:
      return inputs(), output(op.count);
    case Kind::allToAllV:
      return inputs(), outputs();
  }
}

}  // namespace symccl
