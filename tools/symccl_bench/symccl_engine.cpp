// The library as a program calls it: blocking calls of the public interface.
#include <array>

#include "symccl_bench/engine.hpp"
#include "symccl_bench/failure.hpp"

namespace symccl::bench {

namespace {

class SymcclEngine : public Engine {
 public:
  SymcclEngine(std::shared_ptr<Communicator> world, Store& store) : world_(std::move(world)), store_(store) {}

  bool supports(const Task& task) const override { return !isTraining(task.op); }

  void prepare(const Task& task, const void* send, void* recv) override {
    task_ = task;
    blocksOf(send, recv);
    operation_ = describe(send, recv);
    const int rank = world_->rank(), size = world_->size();
    batch_[0] = {Message::Way::send, const_cast<void*>(send), task.bytes(), (rank + 1) % size};
    batch_[1] = {Message::Way::recv, recv, task.bytes(), (rank + size - 1) % size};
  }

  void run() override {
    if (task_.op == Op::sendRecv) {
      for (const Request& request : world_->start(batch_)) orFail(request.wait());
    } else if (task_.op == Op::communicator) {
      made_ = orFail(Communicator::create(store_, world_->rank(), world_->size(), {.name = "symccl-bench"}));
    } else {
      orFail(world_->run(operation_));
    }
  }

  void settle() override { made_.reset(); }

  // From the counters of calls by path, of all calls since the last question.
  std::string path() const override {
    const CommunicatorReport report = world_->report();
    std::array<std::uint64_t, 4> now{};
    for (const auto& [name, counters] : report.operations) {
      now[0] += counters.inlined;
      now[1] += counters.eager;
      now[2] += counters.zeroCopy;
      now[3] += counters.staged;
    }
    static constexpr const char* kNames[] = {"inline", "eager", "zero-copy", "staged"};
    std::string used;
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (now[i] > before_[i]) used += std::string(used.empty() ? "" : "+") + kNames[i];
    }
    before_ = now;
    return used;
  }

  // As the library counted the last call of this kind.
  std::string algorithm() const override {
    if (task_.op == Op::sendRecv || task_.op == Op::communicator) return {};
    const CommunicatorReport report = world_->report();
    for (const auto& [name, counters] : report.operations) {
      if (name == nameOf(operation_.kind)) return counters.algorithm;
    }
    return {};
  }

 private:
  // Of a v kind, this rank's blocks for the others and from them.
  void blocksOf(const void* send, void* recv) {
    const int me = world_->rank();
    const std::size_t element = task_.elementBytes();
    auto* out = static_cast<std::byte*>(const_cast<void*>(send));
    auto* in = static_cast<std::byte*>(recv);
    sends_.clear();
    recvs_.clear();
    for (int other = 0; other < task_.ranks; ++other) {
      sends_.push_back({out + task_.sendOffset(me, other) * element, task_.blockElements(me, other) * element});
      recvs_.push_back({in + task_.recvOffset(other, me) * element, task_.blockElements(other, me) * element});
    }
  }

  Operation describe(const void* send, void* recv) const {
    const Task& task = task_;
    switch (task.op) {
      case Op::allReduce:
        return Operation::allReduce(send, recv, task.count, task.type, task.reduction);
      case Op::reduceScatter:
        return Operation::reduceScatter(send, recv, task.count, task.type, task.reduction);
      case Op::allGather:
        return Operation::allGather(send, recv, task.count, task.type);
      case Op::allToAll:
        return Operation::allToAll(send, recv, task.count, task.type);
      case Op::broadcast:
        return Operation::broadcast(recv, task.count, task.type, task.root);
      case Op::reduce:
        return Operation::reduce(send, recv, task.count, task.type, task.reduction, task.root);
      case Op::gather:
        return Operation::gather(send, recv, task.count, task.type, task.root);
      case Op::scatter:
        return Operation::scatter(send, recv, task.count, task.type, task.root);
      case Op::allGatherV:
        return Operation::allGatherV(sends_.front(), recvs_, task.type);
      case Op::reduceScatterV:
        return Operation::reduceScatterV(sends_, recvs_.front(), task.type, task.reduction);
      case Op::allToAllV:
        return Operation::allToAllV(sends_, recvs_, task.type);
      case Op::gatherV:
        return Operation::gatherV(sends_.front(), atRoot(recvs_), task.type, task.root);
      case Op::scatterV:
        return Operation::scatterV(atRoot(sends_), recvs_.front(), task.type, task.root);
      default:
        return Operation::barrier();
    }
  }

  std::span<const symccl::Block> atRoot(const std::vector<symccl::Block>& blocks) const {
    return world_->rank() == task_.root ? std::span<const symccl::Block>(blocks) : std::span<const symccl::Block>();
  }

  std::shared_ptr<Communicator> world_, made_;
  Store& store_;
  Task task_;
  Operation operation_;
  std::vector<symccl::Block> sends_, recvs_;
  std::array<Message, 2> batch_;
  mutable std::array<std::uint64_t, 4> before_{};
};

}  // namespace

std::unique_ptr<Engine> makeSymcclEngine(std::shared_ptr<Communicator> world, Store& store) {
  return std::make_unique<SymcclEngine>(std::move(world), store);
}

}  // namespace symccl::bench
