// The clock of DistributedDataParallel's logger: kernels end when they return, so the host's clock says when.
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include "device.hpp"
#include "registration.hpp"

namespace symccl::npu {
namespace {

class HostTimer final : public c10d::Timer {
 public:
  explicit HostTimer(c10::Device) {}

  std::optional<std::int64_t> measureDifference(Event start, Event end) override {
    const std::int64_t from = getTimeRef(start), to = getTimeRef(end);
    // Some iterations record the second one only.
    if (from == c10d::kUnsetTime || to == c10d::kUnsetTime || to < from) return std::nullopt;
    return to - from;
  }
};

std::unique_ptr<c10d::Timer> makeTimer(c10::Device device) { return std::make_unique<HostTimer>(device); }

}  // namespace

void registerTimer() { c10d::TimerRegistry()->Register(kNpu, &makeTimer); }

}  // namespace symccl::npu
