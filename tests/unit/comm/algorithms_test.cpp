// Every algorithm, forced by the option of a communicator: values at the edges of its slices, for ranks and memory of
// every kind; bits that are equal where they must be.

#include <cctype>
#include <tuple>

#include "process/all_kinds.hpp"
#include "unit/comm/memory_kinds.hpp"

namespace symccl::test {
namespace {

using Kinds = std::vector<Kind>;

struct Forced {
  const char* option;
  const char* name;  ///< in the report, where the operation has it
  Kinds kinds;       ///< uniform kinds that have it whatever the memory
  bool rankOrder;
};

const Forced kMessageForms[] = {
    {"ring", "ring", {Kind::allReduce, Kind::reduceScatter, Kind::allGather, Kind::broadcast, Kind::reduce}, false},
    {"tree", "tree", {Kind::allReduce, Kind::broadcast, Kind::reduce, Kind::gather, Kind::scatter}, false},
    {"double-tree", "double tree", {Kind::allReduce, Kind::broadcast, Kind::reduce}, false},
    {"H-D_R", "halving-doubling", {Kind::allReduce, Kind::reduceScatter, Kind::allGather}, false},
    {"pairwise", "pairwise", {Kind::allToAll, Kind::reduceScatter}, false},
};
const Forced kSharedMemory[] = {
    {"two-shot", "two-shot", {Kind::allReduce, Kind::reduce, Kind::reduceScatter}, true},
    {"one-shot", "one-shot", {Kind::reduce}, true},
    {"push", "push", {Kind::broadcast, Kind::allGather, Kind::allToAll, Kind::gather, Kind::scatter}, true},
    {"pull", "pull", {Kind::broadcast, Kind::allGather, Kind::allToAll, Kind::gather, Kind::scatter}, true},
    {"split", "split broadcast", {Kind::broadcast}, true},
    {"staged", "staged", {}, true},
};

CommunicatorOptions forcing(const char* option) {
  CommunicatorOptions options;
  options.algorithm = option;
  return options;
}

void expectUsed(Communicator& comm, const Forced& forced) {
  for (const Kind kind : forced.kinds)
    EXPECT_EQ(countersOf(comm, kind).algorithm, comm.size() == 1 ? "local" : forced.name) << nameOf(kind);
}

class MessageForms : public testing::TestWithParam<std::tuple<Forced, int>> {};

// int32: 64 KiB slices of trees are 16384 elements, 1 MiB slices 262144; chunks that p ranks share are 1/p of that.
std::vector<std::size_t> countsFor(int size) {
  std::vector<std::size_t> counts{0, 1, 2, 13, 1023, 1024, 1025, 16384, 16385, 33001};
#if !defined(SYMCCL_THREAD_SANITIZER) && !defined(__SANITIZE_ADDRESS__)  // which see all there is in fewer slices
  if (size == 2) counts.insert(counts.end(), {131072, 131073, 524289});
  if (size == 3) counts.insert(counts.end(), {87381, 262145, 786433});
#else
  if (size == 2) counts.push_back(131073);
  if (size == 3) counts.push_back(87381);
#endif
  return counts;
}

TEST_P(MessageForms, Values) {
  const auto& [forced, size] = GetParam();
  withRanks(
      size,
      [&, &forced = forced](Communicator& comm) {
        const auto pool = poolFor(comm, Memory::registered);
        std::size_t turn = 0;
        for (const std::size_t count : countsFor(comm.size())) {
          const int root = static_cast<int>(count % static_cast<std::size_t>(comm.size()));
          checkAllKinds(comm, turn % 2 == 0 ? pool : nullptr, count, root, turn % 3, false);
          ++turn;
          expectUsed(comm, forced);
        }
      },
      forcing(forced.option));
}

std::string nameOfCase(const testing::TestParamInfo<std::tuple<Forced, int>>& info) {
  std::string name = std::get<0>(info.param).name + std::to_string(std::get<1>(info.param));
  std::erase_if(name, [](unsigned char c) { return !std::isalnum(c); });
  return name;
}

INSTANTIATE_TEST_SUITE_P(Algorithms, MessageForms,
                         testing::Combine(testing::ValuesIn(kMessageForms), testing::Values(1, 2, 3, 4, 5, 6, 7, 8)),
                         nameOfCase);

class SharedMemoryForms : public testing::TestWithParam<std::tuple<Forced, int>> {};

TEST_P(SharedMemoryForms, Values) {
  const auto& [forced, size] = GetParam();
  withRanks(
      size,
      [&, &forced = forced](Communicator& comm) {
        const auto pool = poolFor(comm, Memory::registered);
        for (const std::size_t count : {0u, 12u, 13u, 1023u, 1024u, 1025u, 16385u}) {
          for (const auto& memory : {std::shared_ptr<Pool>(), pool}) {
            checkAllKinds(comm, memory, count, comm.size() - 1, count % 3);
            if (memory && count > 1024) expectUsed(comm, forced);
          }
        }
      },
      forcing(forced.option));
}

INSTANTIATE_TEST_SUITE_P(Algorithms, SharedMemoryForms,
                         testing::Combine(testing::ValuesIn(kSharedMemory), testing::Values(2, 3, 5, 8)), nameOfCase);

// A one-shot cannot be had in place, and needs no registered output.
TEST(OneShot, WhereItCanBeHad) {
  withRanks(
      3,
      [](Communicator& comm) {
        const auto pool = poolFor(comm, Memory::registered);
        constexpr std::size_t kCount = 5000;
        Buffer input(kCount * 4, pool), output(kCount * 4, pool), apart(kCount * 4, nullptr);
        const auto run = [&](Buffer& out) {
          for (std::size_t i = 0; i < kCount; ++i) input.as<std::int32_t>()[i] = element(comm.rank(), i);
          ASSERT_OK(comm.run(Operation::allReduce(input.data(), out.data(), kCount, DataType::int32, ReduceOp::sum)));
          for (std::size_t i = 0; i < kCount; ++i)
            ASSERT_EQ(out.as<std::int32_t>()[i], element(0, i) + element(1, i) + element(2, i));
        };
        for (Buffer* out : {&output, &apart}) {
          run(*out);
          EXPECT_EQ(countersOf(comm, Kind::allReduce).algorithm, "one-shot");
        }
        run(input);
        EXPECT_EQ(countersOf(comm, Kind::allReduce).algorithm, "two-shot");
        // One rank in place is enough.
        run(comm.rank() == 1 ? input : output);
        EXPECT_EQ(countersOf(comm, Kind::allReduce).algorithm, "two-shot");
      },
      forcing("one-shot"));
}

TEST(Pairwise, AllToAllInPlace) {
  for (const int size : {2, 3, 4, 5, 8}) {
    withRanks(
        size,
        [](Communicator& comm) {
          const auto ranks = static_cast<std::size_t>(comm.size()), rank = static_cast<std::size_t>(comm.rank());
          for (const std::size_t count : {1u, 1025u, 270001u}) {
            if (comm.size() > 3 && count > 2000) continue;
            Buffer buffer(ranks * count * 4, nullptr);
            auto* data = buffer.as<std::int32_t>();
            for (std::size_t i = 0; i < ranks * count; ++i) data[i] = element(comm.rank(), i);
            ASSERT_OK(comm.run(Operation::allToAll(data, data, count, DataType::int32)));
            for (std::size_t i = 0; i < ranks * count; ++i)
              ASSERT_EQ(data[i], element(static_cast<int>(i / count), rank * count + i % count)) << i;
          }
          EXPECT_EQ(countersOf(comm, Kind::allToAll).algorithm, "pairwise");
        },
        forcing("pairwise"));
  }
}

template <class T>
void fillWith(std::vector<std::byte>& bytes, int rank) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    const T value = static_cast<T>((i + static_cast<std::size_t>(rank)) % 4);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
}

/// 0, 1, 2 and 3 in turn, in each type's own representation; true and false.
void fillWhole(std::vector<std::byte>& bytes, DataType type, int rank) {
  switch (type) {
    case DataType::boolean:
      for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>((i + static_cast<std::size_t>(rank)) % 4 == 0);
      return;
    case DataType::float16:
    case DataType::bfloat16: {
      const bool half = type == DataType::float16;
      const std::uint16_t values[] = {0, std::uint16_t(half ? 0x3c00 : 0x3f80), std::uint16_t(0x4000),
                                      std::uint16_t(half ? 0x4200 : 0x4040)};
      for (std::size_t i = 0; i < bytes.size() / 2; ++i)
        std::memcpy(bytes.data() + i * 2, &values[(i + static_cast<std::size_t>(rank)) % 4], 2);
      return;
    }
    case DataType::float32:
    case DataType::complex64:
      return fillWith<float>(bytes, rank);
    case DataType::float64:
    case DataType::complex128:
      return fillWith<double>(bytes, rank);
    default:
      break;
  }
  switch (sizeOf(type)) {
    case 1:
      return fillWith<std::uint8_t>(bytes, rank);
    case 2:
      return fillWith<std::uint16_t>(bytes, rank);
    case 4:
      return fillWith<std::uint32_t>(bytes, rank);
    default:
      return fillWith<std::uint64_t>(bytes, rank);
  }
}

// Small whole numbers, on which every type is exact: the same bits as in rank order.
class EveryReduction : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(EveryReduction, OnEveryType) {
  const auto [option, size] = GetParam();
  withRanks(
      size,
      [&](Communicator& comm) {
        auto inOrder = comm.split(0, comm.rank(), {freshName(), std::chrono::seconds(60), -1, "staged"});
        ASSERT_TRUE(inOrder) << inOrder.error().message();
        constexpr std::size_t kCount = 600;
        const auto ranks = static_cast<std::size_t>(comm.size());
        for (int type = 0; type < kDataTypes; ++type) {
          for (int op = 0; op < kReduceOps; ++op) {
            const auto dataType = static_cast<DataType>(type);
            const auto reduction = static_cast<ReduceOp>(op);
            if (!reducible(dataType, reduction)) continue;
            SCOPED_TRACE(testing::Message() << nameOf(dataType) << ' ' << nameOf(reduction));
            const std::size_t bytes = kCount * sizeOf(dataType);
            std::vector<std::byte> inputs(ranks * bytes), result(bytes), expected(bytes);
            ASSERT_OK((*inOrder)->run(Operation::barrier()));
            fillWhole(inputs, dataType, comm.rank());
            for (const Kind kind : {Kind::allReduce, Kind::reduceScatter}) {
              Operation operation =
                  kind == Kind::allReduce
                      ? Operation::allReduce(inputs.data(), result.data(), kCount, dataType, reduction)
                      : Operation::reduceScatter(inputs.data(), result.data(), kCount, dataType, reduction);
              operation.withFactor(comm.rank() + 1);
              ASSERT_OK(comm.run(operation));
              operation.recv = expected.data();
              ASSERT_OK((*inOrder)->run(operation));
              ASSERT_EQ(std::memcmp(result.data(), expected.data(), bytes), 0) << nameOf(kind);
            }
          }
        }
      },
      forcing(option));
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryReduction,
                         testing::Combine(testing::Values("ring", "tree", "double-tree", "H-D_R", "pairwise"),
                                          testing::Values(3, 4, 7)));

// Values that round: equal on all ranks and in every run, and near the sum.
TEST(MessageFormBits, EqualOnAllRanksAndInEveryRun) {
  constexpr std::size_t kCount = 30011;
  const auto value = [](int rank, std::size_t i) {
    return static_cast<float>((static_cast<std::size_t>(rank) + 3) * (i + 1) * 7919 % 1000003) / 7.0f;
  };
  for (const char* option : {"ring", "tree", "double-tree", "H-D_R"}) {
    for (const int size : {3, 4, 5}) {
      std::vector<std::vector<float>> results;
      std::mutex mutex;
      for (const Memory memory : {Memory::unregistered, Memory::registered, Memory::unregistered}) {
        withRanks(
            size,
            [&](Communicator& comm) {
              const auto pool = poolFor(comm, memory);
              Buffer input(kCount * 4, pool), output(kCount * 4, pool);
              for (std::size_t i = 0; i < kCount; ++i) input.as<float>()[i] = value(comm.rank(), i);
              ASSERT_OK(comm.run(
                  Operation::allReduce(input.data(), output.data(), kCount, DataType::float32, ReduceOp::sum)));
              std::lock_guard lock(mutex);
              results.emplace_back(output.as<float>(), output.as<float>() + kCount);
            },
            forcing(option));
      }
      ASSERT_EQ(results.size(), 3u * static_cast<std::size_t>(size));
      for (const auto& result : results)
        ASSERT_EQ(std::memcmp(result.data(), results[0].data(), kCount * 4), 0) << option << ", " << size << " ranks";
      for (std::size_t i = 0; i < kCount; ++i) {
        double sum = 0;
        for (int rank = 0; rank < size; ++rank) sum += value(rank, i);
        ASSERT_NEAR(results[0][i], sum, sum * 1e-6);
      }
    }
  }
}

// Algorithms of one communicator follow each other on the same slots.
TEST(MessageFormSlots, OneAfterTheOther) {
  withRanks(
      5,
      [](Communicator& comm) {
        for (int round = 0; round < 30; ++round) {
          for (const std::size_t count : {1u, 3000u, 20000u}) {
            std::vector<std::int32_t> data(count), everyone(count * 5);
            for (std::size_t i = 0; i < count; ++i) data[i] = element(comm.rank(), i + static_cast<std::size_t>(round));
            ASSERT_OK(comm.run(Operation::allGather(data.data(), everyone.data(), count, DataType::int32)));
            ASSERT_OK(comm.run(Operation::allReduce(data.data(), data.data(), count, DataType::int32, ReduceOp::max)));
            ASSERT_OK(comm.run(Operation::broadcast(everyone.data(), count, DataType::int32, round % 5)));
            for (std::size_t i = 0; i < count; ++i) {
              const std::size_t at = i + static_cast<std::size_t>(round);
              ASSERT_EQ(data[i], element(4, at));
              ASSERT_EQ(everyone[i], element(0, at));
              ASSERT_EQ(everyone[4 * count + i], element(4, at));
            }
          }
        }
      },
      forcing("allgather=ring/allreduce=double-tree/broadcast=staged"));
}

}  // namespace
}  // namespace symccl::test
