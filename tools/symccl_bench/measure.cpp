#include "symccl_bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "symccl_bench/failure.hpp"
#include "symccl_bench/pattern.hpp"

namespace symccl::bench {

namespace {

using Clock = std::chrono::steady_clock;
constexpr double kOtherRegime = 2;

// Reads every line, for rows whose data is not checked.
void readThrough(const std::byte* data, std::size_t bytes) {
  std::byte seen{};
  for (std::size_t at = 0; at < bytes; at += 64) seen |= data[at];
  asm volatile("" ::"r"(&seen) : "memory");
}

bool changed(const MachineState& before, const MachineState& after) {
  if (before.handOffNs == 0) return false;
  const double factor = after.handOffNs / before.handOffNs;
  return factor > kOtherRegime || factor < 1 / kOtherRegime;
}

}  // namespace

/// Runs in the benchmark's own ranks, or (on rank 0 only) in processes of its own.
struct Bench::Library {
  std::string name, version;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<PeerGroup> peer;  ///< rank 0
};

/// A task's buffers, from the pool or private.
struct Bench::Buffers {
  Buffers(const Task& task, int rank, std::shared_ptr<Pool> from) : pool(std::move(from)) {
    const std::size_t element = task.elementBytes(), block = task.count * element;
    sendBytes = task.sendElements() * element;
    recvBytes = task.recvElements() * element;
    base = allocate(task.inPlace ? std::max(sendBytes, recvBytes) : recvBytes);
    recv = base;
    if (!task.inPlace) {
      send = second = allocate(sendBytes);
      return;
    }
    send = base;
    const std::size_t mine = static_cast<std::size_t>(rank) * block;
    if (task.op == Op::allGather) send = base + mine;
    if (task.op == Op::reduceScatter) recv = base + mine;
  }
  ~Buffers() {
    if (pool == nullptr) return;
    if (base != nullptr) pool->free(base);
    if (second != nullptr) pool->free(second);
    (void)pool->trim();
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  std::byte* allocate(std::size_t bytes) {
    bytes = std::max<std::size_t>(bytes, 1);
    if (pool == nullptr) {
      owned.push_back(Mapping::ofPrivate(bytes));
      return owned.back().data();
    }
    auto* data = static_cast<std::byte*>(orFail(pool->allocate(bytes)));
    std::memset(data, 1, bytes);
    return data;
  }

  std::shared_ptr<Pool> pool;
  std::vector<Mapping> owned;
  std::byte *base = nullptr, *second = nullptr;
  std::byte *send = nullptr, *recv = nullptr;
  std::size_t sendBytes = 0, recvBytes = 0;
};

Bench::Bench(Area& area, const Options& options, std::shared_ptr<Communicator> world, std::size_t mostBytes)
    : area_(area), options_(options), machine_(area, mostBytes) {
  if (options.registration > 0) {
    pool_ = orFail(Pool::create());
    orFail(world->registerPool(pool_));
  }
  const auto addPeer = [&](const std::string& name) {
    Library library{name, "", nullptr, nullptr};
    if (area_.rank() == 0) {
      library.peer = std::make_unique<PeerGroup>(name, area_.ranks(), options_);
      library.version = library.peer->version();
    }
    libraries_.push_back(std::move(library));
  };
  if (options.torch) {
    addPeer("symccl");
  } else {
    libraries_.push_back({"symccl", "", makeSymcclEngine(std::move(world)), nullptr});
  }
  for (const std::string& name : options.peers) {
    if (name == "shm-staged") {
      libraries_.push_back({name, "", makeStagedEngine(area_), nullptr});
    } else {
      addPeer(name);
    }
  }
  area_.barrier(Waiting::patient);
}

Bench::~Bench() = default;

Row Bench::run(const Task& task) {
  Buffers buffers(task, area_.rank(), pool_);
  Row row = attempt(task, buffers);
  if (row.regimeChanged) row = attempt(task, buffers);
  area_.barrier(Waiting::brisk);  // nobody frees what another may still read
  return row;
}

// Libraries take turns, so that all of them see whatever the machine goes through.
Row Bench::attempt(const Task& task, Buffers& buffers) {
  Row row;
  row.task = task;
  row.before = machine_.measure(task.bytes());
  const int rounds = libraries_.size() > 1 ? std::min(options_.rounds, options_.iterations) : 1;
  Block block;
  block.check = options_.check;
  block.reuseBuffers = options_.reuseBuffers;
  std::vector<std::vector<double>> times(libraries_.size()), medians(libraries_.size());
  row.libraries.resize(libraries_.size());
  for (int round = 0; round < rounds; ++round) {
    block.iterations = options_.iterations / rounds + (round < options_.iterations % rounds);
    block.warmup = round == 0 ? options_.warmup : std::min(options_.warmup, 2);
    for (std::size_t i = 0; i < libraries_.size(); ++i) {
      const BlockResult result = turn(libraries_[i], task, buffers, block);
      row.libraries[i].wrong += result.wrong;
      row.libraries[i].absent = result.absent;
      times[i].insert(times[i].end(), result.timesNs.begin(), result.timesNs.end());
      medians[i].push_back(median(result.timesNs));
    }
    block.first += static_cast<std::uint64_t>(block.iterations + block.warmup);
  }
  if (libraries_.front().engine != nullptr) {
    row.path = libraries_.front().engine->path();
    row.algorithm = libraries_.front().engine->algorithm();
  }
  row.after = machine_.measure(task.bytes());
  row.regimeChanged = changed(row.before, row.after);

  for (std::size_t i = 0; i < libraries_.size(); ++i) {
    Measured& measured = row.libraries[i];
    measured.name = libraries_[i].name;
    measured.version = libraries_[i].version;
    for (double& time : times[i]) time /= 1000;
    measured.timeUs = spreadOf(times[i]);
    measured.p99Us = quantile(times[i], 0.99);
    measured.bestUs = quantile(times[i], 0);
    std::vector<double> ratios;
    for (std::size_t round = 0; round < medians[i].size(); ++round) {
      if (medians[0][round] > 0) ratios.push_back(medians[i][round] / medians[0][round]);
    }
    measured.ratio = spreadOf(ratios);
  }
  return row;
}

BlockResult Bench::turn(Library& library, const Task& task, Buffers& buffers, const Block& block) {
  if (library.engine != nullptr) {
    if (!library.engine->supports(task)) return {{}, 0, "it does not have this operation"};
    return runHere(*library.engine, task, buffers, block);
  }
  BlockResult result;
  if (library.peer != nullptr) result = library.peer->run(task, block);
  area_.barrier(Waiting::patient);
  return result;
}

BlockResult Bench::runHere(Engine& engine, const Task& task, Buffers& buffers, const Block& block) {
  const Pattern pattern(task, area_.rank());
  std::vector<double> times;
  std::uint64_t wrong = 0;
  const auto check = [&](std::uint64_t iteration) {
    if (options_.faultRank == area_.rank() && buffers.recvBytes > 0) buffers.recv[0] ^= std::byte{1};
    if (block.check) {
      wrong += pattern.wrong(buffers.recv, iteration);
    } else {
      readThrough(buffers.recv, buffers.recvBytes);
    }
  };
  const int all = block.warmup + block.iterations;
  for (int i = 0; i < all; ++i) {
    const std::uint64_t iteration = block.first + static_cast<std::uint64_t>(i);
    if (i == 0 || !block.reuseBuffers) pattern.write(buffers.send, buffers.recv, iteration);
    area_.barrier(Waiting::brisk);
    const Clock::time_point began = Clock::now();
    engine.run(task, buffers.send, buffers.recv);
    const double time = std::chrono::duration<double, std::nano>(Clock::now() - began).count();
    if (i >= block.warmup) times.push_back(time);
    if (!block.reuseBuffers) check(iteration);
  }
  if (block.reuseBuffers) {  // once more with inputs that are known, for in place the last ones are not
    area_.barrier(Waiting::brisk);
    pattern.write(buffers.send, buffers.recv, block.first);
    area_.barrier(Waiting::brisk);
    engine.run(task, buffers.send, buffers.recv);
    check(block.first);
  }
  area_.barrier(Waiting::brisk);
  return {area_.largest(times), area_.sum(wrong), ""};
}

}  // namespace symccl::bench
