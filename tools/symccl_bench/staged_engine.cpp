// The staged scheme of today's CPU serving engines, with our kernels: the opponent that is hard to beat.
#include <algorithm>
#include <array>

#include "kernels/kernels.hpp"
#include "symccl_bench/engine.hpp"

namespace symccl::bench {

namespace {

constexpr std::size_t kChunk = 32 << 20, kOneShotBelow = 1 << 20, kLine = 64;

class StagedEngine : public Engine {
 public:
  explicit StagedEngine(Area& area) : area_(area), halfBytes_(area.slotBytes() / 2) {}

  bool supports(const Task& task) const override { return task.op == Op::allReduce; }

  void prepare(const Task& task, const void* send, void* recv) override {
    task_ = task;
    send_ = static_cast<const std::byte*>(send);
    recv_ = static_cast<std::byte*>(recv);
  }

  void run() override {
    const std::size_t element = task_.elementBytes();
    if (task_.count * element < kOneShotBelow) {
      oneShot();
      return;
    }
    const std::size_t step = std::min(kChunk, halfBytes_) / element;
    for (std::size_t done = 0; done < task_.count; done += step) {
      twoShot(send_ + done * element, recv_ + done * element, std::min(step, task_.count - done));
    }
  }

 private:
  // Halves alternate, so that nobody need wait until the others have read the last one.
  std::byte* nextSlot(int rank) const { return area_.slots(rank) + half_ * halfBytes_; }

  void oneShot() {
    half_ ^= 1;
    copy(nextSlot(area_.rank()), send_, task_.count * task_.elementBytes(), Stores::ordinary);
    area_.barrier(Waiting::brisk);
    reduceSlots(0, task_.count, recv_);
  }

  void twoShot(const std::byte* send, std::byte* recv, std::size_t count) {
    half_ ^= 1;
    const std::size_t element = task_.elementBytes();
    const auto sliceBegin = [&](int rank) {
      const std::size_t slice = (count / static_cast<std::size_t>(area_.ranks()) + kLine) / kLine * kLine;
      return std::min(count, slice * static_cast<std::size_t>(rank));
    };
    copy(nextSlot(area_.rank()), send, count * element, Stores::ordinary);
    area_.barrier(Waiting::brisk);
    const std::size_t begin = sliceBegin(area_.rank()), end = sliceBegin(area_.rank() + 1);
    reduceSlots(begin, end - begin, nextSlot(area_.rank()) + begin * element);
    area_.barrier(Waiting::brisk);
    for (int rank = 0; rank < area_.ranks(); ++rank) {
      const std::size_t from = sliceBegin(rank), to = sliceBegin(rank + 1);
      copy(recv + from * element, nextSlot(rank) + from * element, (to - from) * element, Stores::ordinary);
    }
  }

  void reduceSlots(std::size_t begin, std::size_t count, void* destination) {
    if (count == 0) return;
    std::vector<const void*> sources;
    for (int rank = 0; rank < area_.ranks(); ++rank) sources.push_back(nextSlot(rank) + begin * task_.elementBytes());
    const std::array<void*, 1> destinations = {destination};
    reduce({task_.type, task_.reduction, sources, destinations, count});
  }

  Area& area_;
  std::size_t halfBytes_;
  Task task_;
  const std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;
  std::size_t half_ = 0;
};

}  // namespace

std::size_t stagedSlotBytes(std::size_t mostBytes) { return 2 * std::min(kChunk, (mostBytes + 4095) / 4096 * 4096); }

std::unique_ptr<Engine> makeStagedEngine(Area& area) { return std::make_unique<StagedEngine>(area); }

}  // namespace symccl::bench
