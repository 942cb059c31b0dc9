// The descriptions of collectives, and the convenience calls of Communicator.

#include "symccl/communicator.hpp"

namespace symccl {

namespace {

Operation describe(Kind kind, const void* send, void* recv, std::size_t count, DataType type) {
  Operation operation;
  operation.kind = kind;
  operation.send = send;
  operation.recv = recv;
  operation.count = count;
  operation.type = type;
  return operation;
}

Operation reducing(Operation operation, ReduceOp op) {
  operation.op = op;
  return operation;
}

Operation rooted(Operation operation, int root) {
  operation.root = root;
  return operation;
}

// v kinds: a single block stands in send or recv, its bytes in count.
Operation blocks(Operation operation, std::span<const Block> send, std::span<const Block> recv) {
  operation.sendBlocks = send;
  operation.recvBlocks = recv;
  return operation;
}

}  // namespace

Operation Operation::barrier() { return {}; }

Operation Operation::broadcast(void* buffer, std::size_t count, DataType type, int root) {
  return rooted(describe(Kind::broadcast, buffer, buffer, count, type), root);
}

Operation Operation::allReduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op) {
  return reducing(describe(Kind::allReduce, send, recv, count, type), op);
}

Operation Operation::reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op, int root) {
  return rooted(reducing(describe(Kind::reduce, send, recv, count, type), op), root);
}

Operation Operation::allGather(const void* send, void* recv, std::size_t count, DataType type) {
  return describe(Kind::allGather, send, recv, count, type);
}

Operation Operation::reduceScatter(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op) {
  return reducing(describe(Kind::reduceScatter, send, recv, count, type), op);
}

Operation Operation::allToAll(const void* send, void* recv, std::size_t count, DataType type) {
  return describe(Kind::allToAll, send, recv, count, type);
}

Operation Operation::gather(const void* send, void* recv, std::size_t count, DataType type, int root) {
  return rooted(describe(Kind::gather, send, recv, count, type), root);
}

Operation Operation::scatter(const void* send, void* recv, std::size_t count, DataType type, int root) {
  return rooted(describe(Kind::scatter, send, recv, count, type), root);
}

Operation Operation::allGatherV(Block send, std::span<const Block> recv, DataType type) {
  return blocks(describe(Kind::allGatherV, send.data, nullptr, send.bytes, type), {}, recv);
}

Operation Operation::reduceScatterV(std::span<const Block> send, Block recv, DataType type, ReduceOp op) {
  return reducing(blocks(describe(Kind::reduceScatterV, nullptr, recv.data, recv.bytes, type), send, {}), op);
}

Operation Operation::allToAllV(std::span<const Block> send, std::span<const Block> recv, DataType type) {
  return blocks(describe(Kind::allToAllV, nullptr, nullptr, 0, type), send, recv);
}

Operation Operation::gatherV(Block send, std::span<const Block> recv, DataType type, int root) {
  return rooted(blocks(describe(Kind::gatherV, send.data, nullptr, send.bytes, type), {}, recv), root);
}

Operation Operation::scatterV(std::span<const Block> send, Block recv, DataType type, int root) {
  return rooted(blocks(describe(Kind::scatterV, nullptr, recv.data, recv.bytes, type), send, {}), root);
}

Request Communicator::send(const void* data, std::size_t bytes, int peer, int tag, const CallOptions& options) {
  const Message message{Message::Way::send, const_cast<void*>(data), bytes, peer, tag, false};
  return start({&message, 1}, options).front();
}

Request Communicator::recv(void* data, std::size_t bytes, int peer, int tag, const CallOptions& options) {
  const Message message{Message::Way::recv, data, bytes, peer, tag, false};
  return start({&message, 1}, options).front();
}

}  // namespace symccl
