#include "process/all_kinds.hpp"

#include <deque>
#include <functional>
#include <vector>

#include "unit/comm/memory_kinds.hpp"

namespace symccl::test {

namespace {

constexpr DataType kType = DataType::int32;
constexpr std::size_t kElement = sizeof(std::int32_t);

// What `from` gives to `to`: differs in every element, rank and pair.
std::int32_t given(int from, int to, std::size_t index) {
  return element(from, index + static_cast<std::size_t>(to) * 7919);
}
float inexact(int rank, std::size_t index) { return 0.1f + static_cast<float>(element(rank, index)) / 3.0f; }

class AllKinds {
 public:
  AllKinds(Communicator& comm, const std::shared_ptr<Pool>& pool, std::size_t count, int root, std::size_t shift,
           bool rankOrder)
      : comm_(comm),
        pool_(pool),
        count_(count),
        root_(root),
        shift_(shift),
        rankOrder_(rankOrder),
        me_(comm.rank()),
        size_(comm.size()) {}

  void runAll() {
    EXPECT_OK(comm_.run(Operation::barrier()));
    broadcast();
    reductions();
    if (rankOrder_) roundedSum();
    allGather();
    reduceScatter();
    allToAll();
    gatherAndScatter();
    rowsOfAll();
    rowsOfPairs();
    rowsAtRoot();
  }

 private:
  using Reference = std::function<std::int32_t(std::size_t)>;

  std::size_t all() const { return count_ * static_cast<std::size_t>(size_); }
  std::size_t mine() const { return count_ * static_cast<std::size_t>(me_); }

  Buffer& buffer(std::size_t elements) { return buffers_.emplace_back(elements * kElement, pool_, shift_); }
  std::int32_t* filled(std::size_t elements, const Reference& value) {
    auto* data = buffer(elements).as<std::int32_t>();
    for (std::size_t i = 0; i < elements; ++i) store(data, i, value(i));
    return data;
  }
  // Buffers may stand at odd addresses.
  static void store(std::int32_t* data, std::size_t index, std::int32_t value) {
    std::memcpy(reinterpret_cast<std::byte*>(data) + index * kElement, &value, kElement);
  }
  static std::int32_t load(const std::int32_t* data, std::size_t index) {
    std::int32_t value;
    std::memcpy(&value, reinterpret_cast<const std::byte*>(data) + index * kElement, kElement);
    return value;
  }
  void run(const Operation& operation, const std::int32_t* result, std::size_t elements, const Reference& expected) {
    const Status status = comm_.run(operation);
    ASSERT_TRUE(succeeded(status)) << nameOf(operation.kind) << " of " << count_;
    for (std::size_t i = 0; i < elements; ++i) {
      ASSERT_EQ(load(result, i), expected(i))
          << nameOf(operation.kind) << " of " << count_ << ", element " << i << " on rank " << me_;
    }
  }
  std::int32_t sum(std::size_t index) const {
    std::int32_t total = 0;
    for (int rank = 0; rank < size_; ++rank) total += element(rank, index);
    return total;
  }
  std::int32_t largest(std::size_t index) const { return element(size_ - 1, index); }
  std::int32_t own(std::size_t index) const { return element(me_, index); }
  Reference ownValues() const {
    return [this](std::size_t i) { return own(i); };
  }

  void broadcast() {
    auto* data = filled(count_, ownValues());
    run(Operation::broadcast(data, count_, kType, root_), data, count_,
        [&](std::size_t i) { return element(root_, i); });
  }

  void reductions() {
    const Reference total = [&](std::size_t i) { return sum(i); };
    const Reference most = [&](std::size_t i) { return largest(i); };
    auto* in = filled(count_, ownValues());
    auto* out = buffer(count_).as<std::int32_t>();
    run(Operation::allReduce(in, out, count_, kType, ReduceOp::sum), out, count_, total);
    run(Operation::allReduce(in, out, count_, kType, ReduceOp::max), out, count_, most);
    run(Operation::allReduce(in, in, count_, kType, ReduceOp::sum), in, count_, total);
    in = filled(count_, ownValues());
    out = buffer(count_).as<std::int32_t>();
    const std::size_t received = me_ == root_ ? count_ : 0;
    run(Operation::reduce(in, out, count_, kType, ReduceOp::sum, root_), out, received, total);
    run(Operation::reduce(in, in, count_, kType, ReduceOp::max, root_), in, received, most);
  }

  // Sums run in rank order, so the bits are known on every rank and every path.
  void roundedSum() {
    auto* data = reinterpret_cast<std::byte*>(buffer(count_).as<std::int32_t>());
    for (std::size_t i = 0; i < count_; ++i) {
      const float value = inexact(me_, i);
      std::memcpy(data + i * kElement, &value, kElement);
    }
    EXPECT_OK(comm_.run(Operation::allReduce(data, data, count_, DataType::float32, ReduceOp::sum)));
    for (std::size_t i = 0; i < count_; ++i) {
      float expected = inexact(0, i), value;
      for (int rank = 1; rank < size_; ++rank) expected += inexact(rank, i);
      std::memcpy(&value, data + i * kElement, kElement);
      ASSERT_EQ(value, expected) << "all_reduce float32 x " << count_ << ", element " << i << " on rank " << me_;
    }
  }

  void allGather() {
    const Reference everything = [&](std::size_t i) { return element(static_cast<int>(i / count_), i % count_); };
    auto* in = filled(count_, ownValues());
    auto* out = buffer(all()).as<std::int32_t>();
    run(Operation::allGather(in, out, count_, kType), out, all(), everything);
    auto* both = buffer(all()).as<std::int32_t>();
    for (std::size_t i = 0; i < count_; ++i) store(both, mine() + i, own(i));
    const auto* place = reinterpret_cast<std::byte*>(both) + mine() * kElement;
    run(Operation::allGather(place, both, count_, kType), both, all(), everything);
  }

  void reduceScatter() {
    const Reference part = [&](std::size_t i) { return sum(mine() + i); };
    auto* in = filled(all(), ownValues());
    auto* out = buffer(count_).as<std::int32_t>();
    run(Operation::reduceScatter(in, out, count_, kType, ReduceOp::sum), out, count_, part);
    auto* place = reinterpret_cast<std::int32_t*>(reinterpret_cast<std::byte*>(in) + mine() * kElement);
    run(Operation::reduceScatter(in, place, count_, kType, ReduceOp::sum), place, count_, part);
  }

  void allToAll() {
    const Reference received = [&](std::size_t i) { return given(static_cast<int>(i / count_), me_, i % count_); };
    auto* in = filled(all(), [&](std::size_t i) { return given(me_, static_cast<int>(i / count_), i % count_); });
    auto* out = buffer(all()).as<std::int32_t>();
    run(Operation::allToAll(in, out, count_, kType), out, all(), received);
  }

  void gatherAndScatter() {
    auto* in = filled(count_, ownValues());
    auto* out = buffer(all()).as<std::int32_t>();
    run(Operation::gather(in, out, count_, kType, root_), out, me_ == root_ ? all() : 0,
        [&](std::size_t i) { return element(static_cast<int>(i / count_), i % count_); });
    in = filled(all(), [&](std::size_t i) { return given(me_, static_cast<int>(i / count_), i % count_); });
    out = buffer(count_).as<std::int32_t>();
    run(Operation::scatter(in, out, count_, kType, root_), out, count_,
        [&](std::size_t i) { return given(root_, me_, i); });
  }

  // --- one block per rank -----------------------------------------------------------------------------------------

  // Elements that `from` gives to `to`; nothing for one pair in five.
  std::size_t pieceOf(int from, int to) const {
    if ((from * 3 + to) % 5 == 4) return 0;
    return count_ * static_cast<std::size_t>(1 + (from + 2 * to) % 3) / 2;
  }
  struct Rows {
    std::vector<Block> blocks;
    std::int32_t* at(int rank) const { return static_cast<std::int32_t*>(blocks[static_cast<std::size_t>(rank)].data); }
  };
  Rows rows(const std::function<std::size_t(int)>& elements,
            const std::function<std::int32_t(int, std::size_t)>& value) {
    Rows made;
    for (int rank = 0; rank < size_; ++rank) {
      const std::size_t many = elements(rank);
      made.blocks.push_back({filled(many, [&](std::size_t i) { return value(rank, i); }), many * kElement});
    }
    return made;
  }
  Rows emptyRows(const std::function<std::size_t(int)>& elements) {
    return rows(elements, [](int, std::size_t) { return -1; });
  }
  void runV(const Operation& operation, const std::function<void()>& check) {
    const Status status = comm_.run(operation);
    ASSERT_TRUE(succeeded(status)) << nameOf(operation.kind) << " around " << count_;
    check();
  }
  void expectRow(const std::int32_t* row, std::size_t elements, const char* kind, int from, const Reference& expected) {
    for (std::size_t i = 0; i < elements; ++i) {
      ASSERT_EQ(load(row, i), expected(i))
          << kind << " around " << count_ << ", element " << i << " from rank " << from << " on rank " << me_;
    }
  }

  void rowsOfAll() {
    const auto elements = [&](int rank) { return pieceOf(rank, 0); };
    auto* in = filled(elements(me_), ownValues());
    Rows out = emptyRows(elements);
    runV(Operation::allGatherV({in, elements(me_) * kElement}, out.blocks, kType), [&] {
      for (int from = 0; from < size_; ++from)
        expectRow(out.at(from), elements(from), "all_gather_v", from, [&](std::size_t i) { return element(from, i); });
    });
    Rows parts = rows(elements, [&](int to, std::size_t i) { return given(me_, to, i); });
    auto* result = buffer(elements(me_)).as<std::int32_t>();
    runV(Operation::reduceScatterV(parts.blocks, {result, elements(me_) * kElement}, kType, ReduceOp::sum), [&] {
      expectRow(result, elements(me_), "reduce_scatter_v", me_, [&](std::size_t i) {
        std::int32_t total = 0;
        for (int from = 0; from < size_; ++from) total += given(from, me_, i);
        return total;
      });
    });
  }

  void rowsOfPairs() {
    Rows in = rows([&](int to) { return pieceOf(me_, to); }, [&](int to, std::size_t i) { return given(me_, to, i); });
    Rows out = emptyRows([&](int from) { return pieceOf(from, me_); });
    runV(Operation::allToAllV(in.blocks, out.blocks, kType), [&] {
      for (int from = 0; from < size_; ++from) {
        expectRow(out.at(from), pieceOf(from, me_), "all_to_all_v", from,
                  [&](std::size_t i) { return given(from, me_, i); });
      }
    });
  }

  void rowsAtRoot() {
    const auto elements = [&](int rank) { return pieceOf(rank, root_); };
    auto* in = filled(elements(me_), ownValues());
    Rows out;
    if (me_ == root_) out = emptyRows(elements);
    runV(Operation::gatherV({in, elements(me_) * kElement}, out.blocks, kType, root_), [&] {
      if (me_ != root_) return;
      for (int from = 0; from < size_; ++from)
        expectRow(out.at(from), elements(from), "gather_v", from, [&](std::size_t i) { return element(from, i); });
    });
    Rows parts;
    if (me_ == root_) parts = rows(elements, [&](int to, std::size_t i) { return given(root_, to, i); });
    auto* result = buffer(elements(me_)).as<std::int32_t>();
    runV(Operation::scatterV(parts.blocks, {result, elements(me_) * kElement}, kType, root_), [&] {
      expectRow(result, elements(me_), "scatter_v", root_, [&](std::size_t i) { return given(root_, me_, i); });
    });
  }

  Communicator& comm_;
  const std::shared_ptr<Pool> pool_;
  const std::size_t count_;
  const int root_;
  const std::size_t shift_;
  const bool rankOrder_;
  const int me_, size_;
  std::deque<Buffer> buffers_;
};

}  // namespace

void checkAllKinds(Communicator& communicator, const std::shared_ptr<Pool>& pool, std::size_t count, int root,
                   std::size_t shift, bool rankOrder) {
  SCOPED_TRACE(testing::Message() << (pool ? "registered" : "private") << " buffers, count " << count << ", rank "
                                  << communicator.rank() << " of " << communicator.size());
  AllKinds(communicator, pool, count, root, shift, rankOrder).runAll();
}

}  // namespace symccl::test
