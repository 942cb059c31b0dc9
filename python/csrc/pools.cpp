// A group's pools: registration, queries, and tensors in registered memory.
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "arguments.hpp"
#include "backend.hpp"
#include "errors.hpp"

namespace symccl::pytorch {
namespace {

std::vector<std::int64_t> segmentSizes(const MemPool& pool) {
  std::vector<std::int64_t> sizes;
  for (const SegmentReport& segment : pool.snapshot()) sizes.push_back(static_cast<std::int64_t>(segment.bytes));
  return sizes;
}

std::string describe(const std::int64_t* sizes, std::int64_t count) {
  constexpr std::int64_t kShown = 8;
  std::string text = std::to_string(count) + " segments of [";
  for (std::int64_t i = 0; i < std::min(count, kShown); ++i) text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  return text + (count > kShown ? ", ...] bytes" : "] bytes");
}

}  // namespace

std::shared_ptr<c10::Allocator> ProcessGroupSymCCL::getMemAllocator() {
  return PoolAllocator::ofDevice(options_->device);
}

void ProcessGroupSymCCL::registerMemPool(const MemPool& pool, bool symmetric) {
  TORCH_CHECK(symmetric,
              "symccl: register_mem_pool supports only symm=True: every pool is symmetric memory, there is no plain "
              "user-buffer registration");
  pool.checkOwned();
  check(communicator()->registerPool(pool.pool()));
}

void ProcessGroupSymCCL::deregisterMemPool(const MemPool& pool) {
  const Status status = communicator()->deregisterPool(pool.pool());
  TORCH_CHECK(status || status.error().code() != Code::invalid,
              "Trying to unregister a pool that was not previously registered");
  check(status);
}

bool ProcessGroupSymCCL::isSymmetric(const at::Tensor& tensor) {
  if (!tensor.defined() || !isHostMemory(tensor) || tensor.layout() != at::kStrided) return false;
  const Range span = spanOf(tensor);
  return communicator()->isRegistered(span.begin, span.bytes);
}

void ProcessGroupSymCCL::verifyPool(const MemPool& pool) {
  pool.checkOwned();
  const std::vector<std::int64_t> mine = segmentSizes(pool);
  const auto count = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> counts(size_);
  runOrThrow(Operation::allGather(&count, counts.data(), 1, DataType::int64), c10d::kUnsetTimeout);

  std::int64_t total = 0;
  for (const std::int64_t theirs : counts) total += theirs;
  std::vector<std::int64_t> sizes(total);
  std::vector<Block> blocks;
  std::int64_t place = 0;
  for (const std::int64_t theirs : counts) {
    blocks.push_back({sizes.data() + place, theirs * sizeof(std::int64_t)});
    place += theirs;
  }
  const Block send{const_cast<std::int64_t*>(mine.data()), mine.size() * sizeof(std::int64_t)};
  runOrThrow(Operation::allGatherV(send, blocks, DataType::int64), c10d::kUnsetTimeout);

  std::string differing;
  for (int rank = 1; rank < size_; ++rank) {
    const auto* theirs = static_cast<const std::int64_t*>(blocks[rank].data);
    if (counts[rank] == counts[0] && std::equal(theirs, theirs + counts[rank], sizes.data())) continue;
    differing += ", rank " + std::to_string(rank) + " has " + describe(theirs, counts[rank]);
  }
  TORCH_CHECK(differing.empty(), "symccl: the pool differs between ranks: rank 0 has ",
              describe(sizes.data(), counts[0]), differing);
}

at::Tensor ProcessGroupSymCCL::allocateTensor(long size, at::TensorOptions options) {
  TORCH_CHECK_VALUE(size >= 0, "symccl: allocate_tensor: a tensor cannot have ", size, " elements");
  TORCH_CHECK_VALUE(options.device().is_cpu(), "symccl: allocate_tensor: device is ", options.device(),
                    " (accepted: cpu)");
  const std::shared_ptr<MemPool> pool = tensorPool();
  const PoolUse use(*pool->pool());
  return at::empty({size}, options);
}

std::shared_ptr<MemPool> ProcessGroupSymCCL::tensorPool() {
  std::shared_ptr<MemPool> pool;
  {
    std::lock_guard lock(mutex_);
    pool = tensorPool_;
  }
  if (pool == nullptr) {
    pool = std::make_shared<MemPool>(PoolAllocator::ofDevice(options_->device));
    registerMemPool(*pool, true);
    std::lock_guard lock(mutex_);
    // Of two threads that come first, one's pool serves both; the other's goes with its registration.
    if (tensorPool_ == nullptr) tensorPool_ = pool;
  }
  return pool;
}

}  // namespace symccl::pytorch
