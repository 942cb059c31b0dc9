// Two ranks, threads of this process, sum a vector in place in a registered pool.
#include <symccl/communicator.hpp>

#include <cstdio>
#include <thread>
#include <vector>

using namespace symccl;

namespace {

constexpr int kRanks = 2;
constexpr std::size_t kCount = 100003;

Status rankMain(Store& store, int rank) {
  Result<std::shared_ptr<Communicator>> communicator = Communicator::create(store, rank, kRanks);
  if (!communicator) return communicator.error();
  Result<std::shared_ptr<Pool>> pool = Pool::create();
  if (!pool) return pool.error();
  if (Status status = (*communicator)->registerPool(*pool); !status) return status;
  Result<void*> memory = (*pool)->allocate(kCount * sizeof(float));
  if (!memory) return memory.error();

  auto* data = static_cast<float*>(*memory);
  for (std::size_t i = 0; i < kCount; ++i) data[i] = static_cast<float>(i + static_cast<std::size_t>(rank));
  if (Status status = (*communicator)->run(Operation::allReduce(data, data, kCount, DataType::float32, ReduceOp::sum));
      !status) {
    return status;
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    if (data[i] != static_cast<float>(2 * i + 1)) return Error(Code::internal, "wrong sum at " + std::to_string(i));
  }
  (*pool)->free(data);
  return {};
}

}  // namespace

int main() {
  const std::shared_ptr<Store> store = makeLocalStore();
  std::vector<Status> statuses(kRanks);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] { statuses[static_cast<std::size_t>(rank)] = rankMain(*store, rank); });
  }
  for (std::thread& rank : ranks) rank.join();

  bool failed = false;
  for (const Status& status : statuses) {
    if (status) continue;
    std::fprintf(stderr, "%s: %s\n", codeName(status.error().code()), status.error().message().c_str());
    failed = true;
  }
  return failed ? 1 : 0;
}
