#include "collectives/partial.hpp"

#include <algorithm>

namespace symccl {

namespace {

constexpr std::size_t kZeroBytes = 16 << 10;
alignas(kLine) constexpr std::byte kZeros[kZeroBytes]{};

}  // namespace

Status Partial::begin(const void* own, void* to, std::size_t count) {
  if (round_.operation().op != ReduceOp::premulSum)
    return round_.copy(to, own, count * sizeOf(round_.operation().type), Stores::ordinary);
  sources_.assign({own});
  return combine(true, {to}, count, false);
}

Status Partial::add(const void* own, std::span<const std::byte* const> others, std::initializer_list<void*> to,
                    std::size_t count, bool last) {
  sources_.assign({own});
  sources_.insert(sources_.end(), others.begin(), others.end());
  return combine(true, to, count, last);
}

Status Partial::merge(void* one, const void* other, std::size_t count, bool last) {
  sources_.assign({one, other});
  return combine(false, {one}, count, last);
}

Status Partial::combine(bool firstIsInput, std::initializer_list<void*> to, std::size_t count, bool last) {
  const Operation& operation = round_.operation();
  ReduceOp op = operation.op;
  if (op == ReduceOp::average) {
    if (last) return average(to, count);
    op = ReduceOp::sum;
  }
  factors_.assign(sources_.size(), 1.0);
  if (firstIsInput) factors_[0] = round_.call(round_.rank()).factor;
  return round_.reduce({operation.type, op, sources_, {to.begin(), to.size()}, count, factors_.data()});
}

// The kernels divide by the number of sources, so zeros stand in for the ranks that the partial results hold.
Status Partial::average(std::initializer_list<void*> to, std::size_t count) {
  const DataType type = round_.operation().type;
  const std::size_t element = sizeOf(type), held = sources_.size(), block = kZeroBytes / element;
  const std::vector<const void*> sources = sources_;
  std::vector<void*> targets(to.size());
  sources_.resize(static_cast<std::size_t>(round_.size()), kZeros);
  for (std::size_t done = 0; done < count; done += block) {
    const std::size_t offset = done * element;
    for (std::size_t i = 0; i < held; ++i) sources_[i] = static_cast<const std::byte*>(sources[i]) + offset;
    std::transform(to.begin(), to.end(), targets.begin(),
                   [&](void* target) { return static_cast<std::byte*>(target) + offset; });
    const std::size_t now = std::min(block, count - done);
    if (Status status = round_.reduce({type, ReduceOp::average, sources_, targets, now}); !status) return status;
  }
  return {};
}

}  // namespace symccl
