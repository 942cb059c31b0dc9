// The library as a program calls it: blocking calls of the public interface.
#include <array>

#include "collectives/plan.hpp"
#include "symccl_bench/engine.hpp"
#include "symccl_bench/failure.hpp"

namespace symccl::bench {

namespace {

class SymcclEngine : public Engine {
 public:
  explicit SymcclEngine(std::shared_ptr<Communicator> world) : world_(std::move(world)) {}

  bool supports(const Task&) const override { return true; }

  void run(const Task& task, const void* send, void* recv) override {
    if (task.op == Op::sendRecv) {
      last_ = {};
      exchange(task, send, recv);
    } else {
      last_ = describe(task, send, recv);
      orFail(world_->run(last_));
    }
  }

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
    path_ = used;
    return used;
  }

  // What plan() answers for the last collective, if all ranks' buffers lie as they do here. After path().
  std::string algorithm() const override {
    if (last_.kind == Kind::barrier || path_.empty() || path_.find('+') != std::string::npos) return {};
    Call call;
    call.kind = last_.kind;
    call.type = last_.type;
    call.op = last_.op;
    call.count = last_.count;
    call.form = path_ == "inline" ? Form::inlined : path_ == "eager" ? Form::eager : Form::buffers;
    call.inPlace = last_.send == last_.recv;
    call.sendLocated = world_->isRegistered(last_.send != nullptr ? last_.send : last_.recv, 1);
    call.recvLocated = world_->isRegistered(last_.recv != nullptr ? last_.recv : last_.send, 1);
    return plan({&call, 1}, path_ == "staged").algorithm->name;
  }

 private:
  static Operation describe(const Task& task, const void* send, void* recv) {
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
      case Op::sendRecv:
      case Op::barrier:
        break;
    }
    return Operation::barrier();
  }

  void exchange(const Task& task, const void* send, void* recv) {
    const int rank = world_->rank(), size = world_->size();
    const std::size_t bytes = task.count * task.elementBytes();
    const std::array<Message, 2> batch = {
        Message{Message::Way::send, const_cast<void*>(send), bytes, (rank + 1) % size},
        Message{Message::Way::recv, recv, bytes, (rank + size - 1) % size},
    };
    for (const Request& request : world_->start(batch)) orFail(request.wait());
  }

  std::shared_ptr<Communicator> world_;
  Operation last_;
  mutable std::string path_;
  mutable std::array<std::uint64_t, 4> before_{};
};

}  // namespace

std::unique_ptr<Engine> makeSymcclEngine(std::shared_ptr<Communicator> world) {
  return std::make_unique<SymcclEngine>(std::move(world));
}

}  // namespace symccl::bench
