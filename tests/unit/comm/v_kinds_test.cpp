// v kinds: one block per rank, of different sizes, zero among them.

#include "unit/comm/memory_kinds.hpp"

namespace symccl::test {
namespace {

// Bytes from `from` to `to`: different for every pair, some zero; scaled so that all forms occur.
std::size_t pairBytes(int from, int to, std::size_t scale) {
  return (from + to) % 3 == 2 ? 0 : scale * static_cast<std::size_t>(from * 7 + to + 1) + static_cast<std::size_t>(to);
}
unsigned char byteOf(int from, int to, std::size_t i) {
  return static_cast<unsigned char>(from * 31 + to * 17 + static_cast<int>(i % 251));
}

class VKinds : public testing::TestWithParam<std::tuple<int, Memory, std::size_t>> {
 protected:
  int size() const { return std::get<0>(GetParam()); }
  std::size_t scale() const { return std::get<2>(GetParam()); }
  void run(const std::function<void(Communicator&, std::shared_ptr<Pool>)>& body) const {
    withRanks(size(), [&](Communicator& comm) {
      const auto pool = poolFor(comm, std::get<1>(GetParam()));
      for (int round = 0; round < 3; ++round) body(comm, pool);
    });
  }
};

struct Blocks {
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<Block> blocks;
  void add(std::size_t bytes, const std::shared_ptr<Pool>& pool) {
    buffers.push_back(std::make_unique<Buffer>(bytes, pool));
    blocks.push_back({bytes == 0 ? nullptr : buffers.back()->data(), bytes});
  }
};

void fill(const Block& block, int from, int to) {
  for (std::size_t i = 0; i < block.bytes; ++i) static_cast<unsigned char*>(block.data)[i] = byteOf(from, to, i);
}
void expect(const Block& block, int from, int to) {
  for (std::size_t i = 0; i < block.bytes; ++i) {
    ASSERT_EQ(static_cast<unsigned char*>(block.data)[i], byteOf(from, to, i))
        << "byte " << i << " of " << block.bytes << " from " << from;
  }
}

TEST_P(VKinds, AllToAll) {
  run([&](Communicator& comm, const std::shared_ptr<Pool>& pool) {
    Blocks send, recv;
    for (int peer = 0; peer < comm.size(); ++peer) {
      send.add(pairBytes(comm.rank(), peer, scale()), pool);
      fill(send.blocks.back(), comm.rank(), peer);
      recv.add(pairBytes(peer, comm.rank(), scale()), pool);
    }
    ASSERT_OK(comm.run(Operation::allToAllV(send.blocks, recv.blocks, DataType::byte)));
    for (int peer = 0; peer < comm.size(); ++peer)
      expect(recv.blocks[static_cast<std::size_t>(peer)], peer, comm.rank());
  });
}

TEST_P(VKinds, AllGather) {
  run([&](Communicator& comm, const std::shared_ptr<Pool>& pool) {
    Blocks send, recv;
    send.add(pairBytes(comm.rank(), 0, scale()), pool);
    fill(send.blocks[0], comm.rank(), 0);
    for (int peer = 0; peer < comm.size(); ++peer) recv.add(pairBytes(peer, 0, scale()), pool);
    ASSERT_OK(comm.run(Operation::allGatherV(send.blocks[0], recv.blocks, DataType::byte)));
    for (int peer = 0; peer < comm.size(); ++peer) expect(recv.blocks[static_cast<std::size_t>(peer)], peer, 0);
  });
}

TEST_P(VKinds, GatherAndScatter) {
  run([&](Communicator& comm, const std::shared_ptr<Pool>& pool) {
    const int root = comm.size() - 1;
    Blocks mine, all;
    mine.add(pairBytes(comm.rank(), root, scale()), pool);
    fill(mine.blocks[0], comm.rank(), root);
    for (int peer = 0; comm.rank() == root && peer < comm.size(); ++peer) all.add(pairBytes(peer, root, scale()), pool);
    ASSERT_OK(comm.run(Operation::gatherV(mine.blocks[0], all.blocks, DataType::byte, root)));
    for (int peer = 0; comm.rank() == root && peer < comm.size(); ++peer)
      expect(all.blocks[static_cast<std::size_t>(peer)], peer, root);

    Blocks out, back;
    for (int peer = 0; comm.rank() == root && peer < comm.size(); ++peer) {
      out.add(pairBytes(root, peer, scale()), pool);
      fill(out.blocks.back(), root, peer);
    }
    back.add(pairBytes(root, comm.rank(), scale()), pool);
    ASSERT_OK(comm.run(Operation::scatterV(out.blocks, back.blocks[0], DataType::byte, root)));
    expect(back.blocks[0], root, comm.rank());
  });
}

TEST_P(VKinds, ReduceScatter) {
  run([&](Communicator& comm, const std::shared_ptr<Pool>& pool) {
    const auto bytes = [&](int peer) { return pairBytes(1, peer, scale()) / 4 * 4; };
    Blocks send, recv;
    for (int peer = 0; peer < comm.size(); ++peer) {
      send.add(bytes(peer), pool);
      auto* data = static_cast<std::int32_t*>(send.blocks.back().data);
      for (std::size_t i = 0; i < bytes(peer) / 4; ++i)
        data[i] = element(comm.rank(), i + static_cast<std::size_t>(peer));
    }
    recv.add(bytes(comm.rank()), pool);
    ASSERT_OK(comm.run(Operation::reduceScatterV(send.blocks, recv.blocks[0], DataType::int32, ReduceOp::sum)));
    for (std::size_t i = 0; i < bytes(comm.rank()) / 4; ++i) {
      std::int32_t sum = 0;
      for (int rank = 0; rank < comm.size(); ++rank) sum += element(rank, i + static_cast<std::size_t>(comm.rank()));
      ASSERT_EQ(static_cast<std::int32_t*>(recv.blocks[0].data)[i], sum);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, VKinds,
                         testing::Combine(testing::Values(1, 2, 3, 5),
                                          testing::Values(Memory::unregistered, Memory::registered),
                                          testing::Values(0, 1, 40, 1500, 300007)));

}  // namespace
}  // namespace symccl::test
