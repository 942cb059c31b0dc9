// Where sources and destinations lie, how long they are and how many: never does it change a bit, or touch a neighbour.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>

#include "guarded_buffer.hpp"
#include "kernels/dispatch.hpp"
#include "reference.hpp"

namespace symccl::test {
namespace {

constexpr Stores kBothStores[] = {Stores::ordinary, Stores::streaming};
constexpr unsigned char kCanary = 0xc3;
constexpr std::size_t kMargin = 64;
constexpr double kFactors[] = {0.5, -3, 0.1, 1, 1e-3, 1e30, -0.0, 7};

std::string describe(const KernelTable& kernels, TypeAndOp what, Stores stores) {
  return std::string(kernels.name) + " " + nameOf(what.type) + " " + nameOf(what.op) +
         (stores == Stores::streaming ? " streaming" : "");
}

bool untouched(const char* begin, const char* end) {
  return std::all_of(begin, end, [](char byte) { return static_cast<unsigned char>(byte) == kCanary; });
}

/// Sources of one type with what must come out of them.
struct Problem {
  Problem(TypeAndOp task, std::size_t sourceCount, std::size_t elements, std::uint64_t seed = 1)
      : what(task), count(elements), bytes(elements * sizeOf(task.type)) {
    for (std::size_t source = 0; source < sourceCount; ++source) {
      sources.push_back(pattern(what.type, count, seed * 1000 + source));
      factors.push_back(kFactors[source % std::size(kFactors)]);
    }
    expected = expectedReduction(what.type, what.op, addresses(), factors.data(), count);
  }
  std::vector<const void*> addresses() const {
    std::vector<const void*> result;
    for (const auto& source : sources) result.push_back(source.data());
    return result;
  }
  Reduction reduction(std::span<const void* const> from, std::span<void* const> to, Stores stores) const {
    return {what.type, what.op, from, to, count, factors.data(), stores};
  }

  TypeAndOp what;
  std::size_t count;
  std::size_t bytes;
  std::vector<std::vector<char>> sources;
  std::vector<double> factors;
  std::vector<char> expected;
};

/// Every length, each range ending at a page without access.
void checkLengths(TypeAndOp what, std::size_t sourceCount) {
  constexpr std::size_t kMost = 4099;
  const std::size_t elementBytes = sizeOf(what.type);
  const Problem problem(what, sourceCount, kMost);
  std::vector<std::unique_ptr<GuardedBuffer>> buffers;
  for (const auto& source : problem.sources) {
    buffers.push_back(std::make_unique<GuardedBuffer>(problem.bytes));
    std::memcpy(buffers.back()->end() - problem.bytes, source.data(), problem.bytes);
  }
  GuardedBuffer result(problem.bytes + kMargin);
  std::vector<std::size_t> lengths(301);
  std::iota(lengths.begin(), lengths.end(), 0);
  lengths.insert(lengths.end(), {509, 1021, 2053, kMost});

  for (const KernelTable* kernels : kernelTables()) {
    for (Stores stores : kBothStores) {
      for (std::size_t length : lengths) {
        const std::size_t bytes = length * elementBytes;
        std::vector<const void*> sources;
        for (const auto& buffer : buffers) sources.push_back(buffer->end() - bytes);
        char* const to = result.end() - bytes;
        void* const destination = to;
        std::memset(to - kMargin, kCanary, kMargin + bytes);
        reduceWith(*kernels, {what.type, what.op, sources, {&destination, 1}, length, problem.factors.data(), stores});
        ASSERT_TRUE(std::equal(to, to + bytes, problem.expected.end() - static_cast<std::ptrdiff_t>(bytes)))
            << describe(*kernels, what, stores) << ", " << sourceCount << " sources, " << length << " elements";
        ASSERT_TRUE(untouched(to - kMargin, to)) << describe(*kernels, what, stores) << ", " << length << " elements";
      }
    }
  }
}

TEST(Reduce, EveryTypeOperationAndLength) {
  for (TypeAndOp what : reducibleCases()) {
    for (std::size_t sourceCount : {1, 2, 3, 8}) {
      ASSERT_NO_FATAL_FAILURE(checkLengths(what, sourceCount));
    }
  }
}

/// Three sources, two destinations; one of the five is moved through all offsets of a line, below its element's size
/// too.
void checkOffsets(const Problem& problem) {
  constexpr std::size_t kPointers = 5;
  std::vector<std::unique_ptr<GuardedBuffer>> buffers;
  for (std::size_t p = 0; p < kPointers; ++p) {
    buffers.push_back(std::make_unique<GuardedBuffer>(problem.bytes + 3 * kMargin));
  }
  for (const KernelTable* kernels : kernelTables()) {
    for (Stores stores : kBothStores) {
      for (std::size_t moved = 0; moved < kPointers; ++moved) {
        for (std::size_t offset = 0; offset < kMargin; ++offset) {
          char* at[kPointers];
          for (std::size_t p = 0; p < kPointers; ++p) {
            at[p] = buffers[p]->begin() + kMargin + (p == moved ? offset : 0);
            if (p < 3) {
              std::memcpy(at[p], problem.sources[p].data(), problem.bytes);
            } else {
              std::memset(buffers[p]->begin(), kCanary, problem.bytes + 3 * kMargin);
            }
          }
          const void* const sources[] = {at[0], at[1], at[2]};
          void* const destinations[] = {at[3], at[4]};
          reduceWith(*kernels, problem.reduction(sources, destinations, stores));
          for (std::size_t p = 3; p < kPointers; ++p) {
            ASSERT_EQ(std::memcmp(at[p], problem.expected.data(), problem.bytes), 0)
                << describe(*kernels, problem.what, stores) << ", pointer " << moved << " at " << offset;
            ASSERT_TRUE(untouched(buffers[p]->begin(), at[p]));
            ASSERT_TRUE(untouched(at[p] + problem.bytes, at[p] + problem.bytes + kMargin));
          }
        }
      }
    }
  }
}

TEST(Reduce, EveryOffset) {
  for (TypeAndOp what : reducibleCases()) {
    if (what.op != ReduceOp::sum && what.op != ReduceOp::product) continue;
    for (std::size_t bytes : {112, 2064, 16400}) {
      ASSERT_NO_FATAL_FAILURE(checkOffsets(Problem(what, 3, bytes / sizeOf(what.type))));
    }
  }
}

TEST(Reduce, ManySourcesAndDestinations) {
  for (TypeAndOp what : reducibleCases()) {
    for (std::size_t sourceCount : {1, 2, 3, 8, 40}) {
      const Problem problem(what, sourceCount, 2503);
      const auto sources = problem.addresses();
      for (std::size_t destinationCount : {1, 2, 3}) {
        for (const KernelTable* kernels : kernelTables()) {
          for (Stores stores : kBothStores) {
            std::vector<std::vector<char>> results(destinationCount, std::vector<char>(problem.bytes));
            std::vector<void*> destinations;
            for (auto& result : results) destinations.push_back(result.data());
            reduceWith(*kernels, problem.reduction(sources, destinations, stores));
            for (const auto& result : results) {
              ASSERT_EQ(result, problem.expected) << describe(*kernels, what, stores) << ", " << sourceCount
                                                  << " sources, " << destinationCount << " destinations";
            }
          }
        }
      }
    }
  }
}

TEST(Reduce, InPlace) {
  for (TypeAndOp what : reducibleCases()) {
    for (std::size_t count : {1, 17, 300, 2503}) {
      const Problem problem(what, 3, count);
      for (const KernelTable* kernels : kernelTables()) {
        for (Stores stores : kBothStores) {
          auto inputs = problem.sources;
          std::vector<char> other(problem.bytes);
          const void* const sources[] = {inputs[0].data(), inputs[1].data(), inputs[2].data()};
          void* const destinations[] = {inputs[0].data(), other.data(), inputs[2].data()};
          reduceWith(*kernels, problem.reduction(sources, destinations, stores));
          ASSERT_EQ(inputs[0], problem.expected) << describe(*kernels, what, stores) << ", " << count << " elements";
          ASSERT_EQ(inputs[2], problem.expected) << describe(*kernels, what, stores) << ", " << count << " elements";
          ASSERT_EQ(other, problem.expected) << describe(*kernels, what, stores) << ", " << count << " elements";
          ASSERT_EQ(inputs[1], problem.sources[1]);
        }
      }
    }
  }
}

TEST(Reduce, HoweverTheRangeIsCut) {
  std::mt19937 random(7);
  for (TypeAndOp what : reducibleCases()) {
    const Problem problem(what, 3, 10007);
    const std::size_t elementBytes = sizeOf(what.type);
    std::vector<char> result(problem.bytes);
    for (std::size_t begin = 0, end; begin < problem.count; begin = end) {
      end = std::min<std::size_t>(problem.count, begin + 1 + random() % (random() % 2 ? 40 : 2000));
      const void* sources[3];
      for (int source = 0; source < 3; ++source)
        sources[source] = problem.sources[source].data() + begin * elementBytes;
      void* const destination = result.data() + begin * elementBytes;
      Reduction piece = problem.reduction(sources, {&destination, 1}, kBothStores[random() % 2]);
      piece.count = end - begin;
      reduceWith(*kernelTables()[random() % kernelTables().size()], piece);
    }
    ASSERT_EQ(result, problem.expected) << nameOf(what.type) << " " << nameOf(what.op);
  }
}

TEST(Reduce, AnyBitsGiveTheSameOnEveryInstructionSet) {
  constexpr std::size_t kBytes = 160000;
  for (TypeAndOp what : reducibleCases()) {
    std::vector<std::vector<char>> inputs;
    std::vector<const void*> sources;
    for (std::uint64_t source = 0; source < 3; ++source) inputs.push_back(randomBits(kBytes, 17 + source));
    for (const auto& input : inputs) sources.push_back(input.data());
    std::vector<std::vector<char>> results;
    for (const KernelTable* kernels : kernelTables()) {
      results.emplace_back(kBytes);
      void* const destination = results.back().data();
      reduceWith(*kernels, {what.type, what.op, sources, {&destination, 1}, kBytes / sizeOf(what.type), kFactors});
    }
    for (const auto& result : results) {
      ASSERT_EQ(result, results.front()) << nameOf(what.type) << " " << nameOf(what.op);
    }
  }
}

TEST(Reduce, ThePublicFunctionUsesTheChosenSet) {
  const Problem problem({DataType::bfloat16, ReduceOp::average}, 3, 777);
  std::vector<char> result(problem.bytes);
  void* const destination = result.data();
  const auto sources = problem.addresses();
  reduce(problem.reduction(sources, {&destination, 1}, Stores::streaming));
  EXPECT_EQ(result, problem.expected);
  const auto tables = kernelTables();
  EXPECT_TRUE(std::any_of(tables.begin(), tables.end(),
                          [](const KernelTable* kernels) { return std::string(kernels->name) == kernelIsa(); }));
}

}  // namespace
}  // namespace symccl::test
