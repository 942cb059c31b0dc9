#include "symccl_bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <tuple>

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

/// A task's buffers, from the pool or private.
struct Bench::Buffers {
  Buffers(const Task& task, int rank, std::shared_ptr<Pool> from) : pool(std::move(from)) {
    const std::size_t element = task.elementBytes(), block = task.count * element;
    sendBytes = task.sendElements(rank) * element;
    recvBytes = task.recvElements(rank) * element;
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

/// Runs in the benchmark's own ranks, or (on rank 0 only) in processes of its own.
struct Bench::Library {
  std::string name, version;
  std::shared_ptr<Engine> engine;   ///< shared by the variants of the library itself
  std::unique_ptr<PeerGroup> peer;  ///< rank 0
  std::shared_ptr<Buffers> buffers;
};

/// What one library's turns of a row have brought.
struct Bench::Samples {
  std::vector<double> timesNs, medians;  ///< medians: of each turn
  Series more;
  std::uint64_t wrong = 0;
  std::string absent, path, algorithm;

  void add(const BlockResult& result) {
    timesNs.insert(timesNs.end(), result.timesNs.begin(), result.timesNs.end());
    medians.push_back(median(result.timesNs));
    more.resize(result.more.size());
    for (std::size_t i = 0; i < more.size(); ++i) {
      more[i].first = result.more[i].first;
      more[i].second.insert(more[i].second.end(), result.more[i].second.begin(), result.more[i].second.end());
    }
    wrong += result.wrong;
    absent = result.absent;
  }
};

namespace {

Spread microseconds(std::vector<double> nanoseconds) {
  for (double& time : nanoseconds) time /= 1000;
  return spreadOf(nanoseconds);
}

bool variantOfOurs(const std::string& peer) { return peer == "private" || peer == "out-of-place"; }

// Of the builds of one peer, the fastest stays.
void keepFastest(std::vector<Measured>& libraries) {
  const auto better = [](const Measured& a, const Measured& b) {
    if (a.absent.empty() != b.absent.empty()) return a.absent.empty();
    return a.timeUs.median < b.timeUs.median;
  };
  std::vector<Measured> kept;
  for (Measured& library : libraries) {
    const bool another = !kept.empty() && kept.back().name == library.name;
    if (!another) {
      kept.push_back(std::move(library));
    } else if (better(library, kept.back())) {
      kept.back() = std::move(library);
    }
  }
  libraries = std::move(kept);
}

}  // namespace

Bench::Bench(Area& area, Store& store, const Options& options, std::shared_ptr<Communicator> world,
             std::size_t mostBytes)
    : area_(area), options_(options), machine_(area, mostBytes) {
  if (options.registration > 0) {
    pool_ = orFail(Pool::create());
    orFail(world->registerPool(pool_));
  }
  addLibraries(store, std::move(world));
  area_.barrier(Waiting::patient);
}

Bench::~Bench() = default;

void Bench::addLibraries(Store& store, std::shared_ptr<Communicator> world) {
  std::shared_ptr<Engine> ours;
  if (options_.torch) {
    addPeer("symccl", "symccl");
  } else {
    ours = makeSymcclEngine(world, store);
    libraries_.push_back({"symccl", "", ours, nullptr, nullptr});
  }
  if (options_.sweepAlgorithms) addForced(ours, *world, store);
  for (const std::string& name : options_.peers) {
    if (name == "shm-staged") {
      libraries_.push_back({name, "", makeStagedEngine(area_), nullptr, nullptr});
    } else if (ours != nullptr && variantOfOurs(name)) {
      libraries_.push_back({name, "", ours, nullptr, nullptr});
    } else {
      for (const std::string& build : buildsOf(name)) addPeer(name, build);
    }
  }
}

void Bench::addForced(const std::shared_ptr<Engine>& ours, Communicator& world, Store& store) {
  sweep_ = std::make_unique<Sweep>(area_, pool_ != nullptr);
  for (Sweep::Forced& forced : sweep_->forced(options_.ops, world, store, ours)) {
    if (pool_) orFail(forced.communicator->registerPool(pool_));
    libraries_.push_back({forced.name, "", std::move(forced.engine), nullptr, nullptr});
  }
}

void Bench::addPeer(const std::string& name, const std::string& build) {
  Library library{name, "", nullptr, nullptr, nullptr};
  if (area_.rank() == 0) {
    library.peer = std::make_unique<PeerGroup>(build, area_.ranks(), options_);
    library.version = library.peer->version();
  }
  libraries_.push_back(std::move(library));
}

Row Bench::run(const Task& task) {
  for (Library& library : libraries_) {
    if (library.engine == nullptr) continue;
    if (sweep_ && &library != &libraries_.front()) {  // algorithms differ in what they do, not in where
      library.buffers = libraries_.front().buffers;
      continue;
    }
    Task own = task;
    own.inPlace = task.inPlace && library.name != "out-of-place";
    library.buffers = std::make_shared<Buffers>(own, area_.rank(), library.name == "private" ? nullptr : pool_);
  }
  Row row = attempt(task);
  if (row.regimeChanged) row = attempt(task);
  area_.barrier(Waiting::brisk);  // nobody frees what another may still read
  for (Library& library : libraries_) library.buffers.reset();
  if (sweep_ && area_.rank() == 0) sweep_->judge(row);
  return row;
}

// Libraries take turns, so that all of them see whatever the machine goes through.
Row Bench::attempt(const Task& task) {
  Row row;
  row.task = task;
  row.before = machine_.measure(task.bytes());
  const int rounds = libraries_.size() > 1 ? std::min(options_.rounds, options_.iterations) : 1;
  Block block;
  block.check = options_.check;
  block.reuseBuffers = options_.reuseBuffers;
  std::vector<Samples> samples(libraries_.size());
  for (int round = 0; round < rounds; ++round) {
    block.iterations = options_.iterations / rounds + (round < options_.iterations % rounds);
    block.warmup = round == 0 ? options_.warmup : std::min(options_.warmup, 2);
    for (std::size_t i = 0; i < libraries_.size(); ++i) {
      samples[i].add(turn(libraries_[i], task, block));
      if (libraries_[i].engine == nullptr) continue;
      samples[i].path = libraries_[i].engine->path();  // asked after each turn, because variants share it
      samples[i].algorithm = libraries_[i].engine->algorithm();
    }
    block.first += static_cast<std::uint64_t>(block.iterations + block.warmup);
  }
  row.after = machine_.measure(task.bytes());
  row.regimeChanged = changed(row.before, row.after);

  for (std::size_t i = 0; i < libraries_.size(); ++i) {
    Measured measured;
    measured.name = libraries_[i].name;
    measured.version = libraries_[i].version;
    measured.absent = samples[i].absent;
    measured.path = samples[i].path;
    measured.algorithm = samples[i].algorithm;
    measured.wrong = samples[i].wrong;
    measured.timeUs = microseconds(samples[i].timesNs);
    measured.p99Us = quantile(samples[i].timesNs, 0.99) / 1000;
    measured.bestUs = quantile(samples[i].timesNs, 0) / 1000;
    for (const auto& [name, times] : samples[i].more) measured.moreUs.emplace_back(name, microseconds(times));
    std::vector<double> ratios;
    for (std::size_t round = 0; round < samples[i].medians.size(); ++round) {
      if (samples[0].medians[round] > 0) ratios.push_back(samples[i].medians[round] / samples[0].medians[round]);
    }
    measured.ratio = spreadOf(ratios);
    std::tie(measured.ratioLow, measured.ratioHigh) = medianInterval(ratios);
    row.libraries.push_back(std::move(measured));
  }
  keepFastest(row.libraries);
  return row;
}

BlockResult Bench::turn(Library& library, const Task& task, const Block& block) {
  if (library.engine != nullptr) {
    if (!library.engine->supports(task)) return {{}, {}, 0, "it does not have this operation"};
    return runHere(library, task, block);
  }
  BlockResult result;
  if (library.peer != nullptr) result = library.peer->run(task, block);
  area_.barrier(Waiting::patient);
  return result;
}

BlockResult Bench::runHere(Library& library, const Task& task, const Block& block) {
  Engine& engine = *library.engine;
  Buffers& buffers = *library.buffers;
  const Pattern pattern(task, area_.rank());
  engine.prepare(task, buffers.send, buffers.recv);
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
    block.reuseBuffers ? area_.barrier(Waiting::brisk) : area_.startTogether();
    const Clock::time_point began = Clock::now();
    engine.run();
    const double time = std::chrono::duration<double, std::nano>(Clock::now() - began).count();
    engine.settle();
    if (i >= block.warmup) times.push_back(time);
    if (!block.reuseBuffers) check(iteration);
  }
  if (block.reuseBuffers) {  // once more with inputs that are known, for in place the last ones are not
    area_.barrier(Waiting::brisk);
    pattern.write(buffers.send, buffers.recv, block.first);
    area_.barrier(Waiting::brisk);
    engine.run();
    engine.settle();
    check(block.first);
  }
  area_.barrier(Waiting::brisk);
  return {area_.largest(times), {}, area_.sum(wrong), ""};
}

}  // namespace symccl::bench
