// All-reduce on registered memory, from C++ alone.
//
//   build/examples/all_reduce --ranks 4
//   mpirun -n 4 build/examples/all_reduce
//   torchrun --standalone --no-python --nproc_per_node=4 build/examples/all_reduce

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "symccl/communicator.hpp"
#include "symccl/memory.hpp"
#include "symccl/spawn.hpp"
#include "symccl/store.hpp"

namespace {

using namespace symccl;

template <class T>
T orExit(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.error().message().c_str());
  std::exit(1);
}

void orExit(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "%s\n", status.error().message().c_str());
  std::exit(1);
}

int runRank() {
  const Launch launch = orExit(launchFromEnvironment());
  const std::shared_ptr<Store> store = orExit(storeFromEnvironment(launch, std::chrono::seconds(60)));
  const std::shared_ptr<Communicator> world = orExit(Communicator::create(*store, launch.rank, launch.size));

  // Memory from a registered pool: the other ranks read and write it in place.
  const std::shared_ptr<Pool> pool = orExit(Pool::create());
  orExit(world->registerPool(pool));
  constexpr std::size_t kCount = 1 << 20;
  auto* data = static_cast<float*>(orExit(pool->allocate(kCount * sizeof(float))));
  for (std::size_t i = 0; i < kCount; ++i) data[i] = static_cast<float>(world->rank() + 1);

  orExit(world->run(Operation::allReduce(data, data, kCount, DataType::float32, ReduceOp::sum)));

  const auto expected = static_cast<float>(world->size() * (world->size() + 1) / 2);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < kCount; ++i) wrong += data[i] != expected;
  std::uint64_t zeroCopy = 0;
  for (const auto& [name, counters] : world->report().operations) zeroCopy += counters.zeroCopy;
  if (world->rank() == 0) {
    std::printf("%d ranks (%s): sum %.1f, %zu wrong elements, %llu zero-copy operation(s)\n", world->size(),
                launch.launcher.c_str(), static_cast<double>(data[0]), wrong,
                static_cast<unsigned long long>(zeroCopy));
  }
  pool->free(data);
  return wrong == 0 && (world->size() == 1 || zeroCopy == 1) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--ranks") == 0 && std::getenv("SYMCCL_ROOT") == nullptr) {
    return orExit(symccl::runRanks(std::atoi(argv[2]), argv));
  }
  return runRank();
}
