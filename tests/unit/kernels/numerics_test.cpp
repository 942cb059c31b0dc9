// Roundings, NaN, zeros, integers and the thread's floating-point mode: what types.hpp and kernels.hpp promise of
// values.
#include <gtest/gtest.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/dispatch.hpp"
#include "reference.hpp"

namespace symccl::test {
namespace {

/// Reduces one element of each source on every instruction set and returns what they agree on.
template <class T>
T reduceOne(DataType type, ReduceOp op, const std::vector<T>& inputs, const std::vector<double>& factors = {}) {
  std::vector<const void*> sources;
  for (const T& input : inputs) sources.push_back(&input);
  T first{};
  for (const KernelTable* kernels : kernelTables()) {
    T result{};
    void* const destination = &result;
    reduceWith(*kernels, {type, op, sources, {&destination, 1}, 1, factors.data()});
    if (kernels == kernelTables().front()) first = result;
    EXPECT_EQ(std::memcmp(&result, &first, sizeof(T)), 0) << kernels->name;
  }
  return first;
}

struct Named {
  DataType type;
  SmallFormat format;
};
const Named kSmallTypes[] = {{DataType::float16, kFloat16}, {DataType::bfloat16, kBfloat16}};

std::vector<std::uint16_t> allPatterns() {
  std::vector<std::uint16_t> all(1 << 16);
  for (std::size_t bits = 0; bits < all.size(); ++bits) all[bits] = static_cast<std::uint16_t>(bits);
  return all;
}

TEST(Numerics, ReferenceConversionsByKnownValues) {
  EXPECT_EQ(encode(kFloat16, 1.0f), 0x3c00);
  EXPECT_EQ(encode(kFloat16, 65504.0f), 0x7bff);
  EXPECT_EQ(encode(kFloat16, 65519.99f), 0x7bff);
  EXPECT_EQ(encode(kFloat16, 65520.0f), 0x7c00);
  EXPECT_EQ(encode(kFloat16, 0x1p-24f), 0x0001);
  EXPECT_EQ(encode(kFloat16, 0x1p-25f), 0x0000);
  EXPECT_EQ(encode(kFloat16, 0x1.8p-24f), 0x0002);
  EXPECT_EQ(encode(kFloat16, -0.0f), 0x8000);
  EXPECT_EQ(encode(kBfloat16, 1.0f), 0x3f80);
  EXPECT_EQ(encode(kBfloat16, std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(encode(kBfloat16, std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(encode(kBfloat16, 1.00390625f), 0x3f80);
  EXPECT_EQ(encode(kBfloat16, 1.01171875f), 0x3f82);
}

TEST(Numerics, EverySmallFloatSurvives) {
  const auto all = allPatterns();
  const void* const source = all.data();
  for (const Named& small : kSmallTypes) {
    for (const KernelTable* kernels : kernelTables()) {
      std::vector<std::uint16_t> result(all.size());
      void* const destination = result.data();
      reduceWith(*kernels, {small.type, ReduceOp::sum, {&source, 1}, {&destination, 1}, all.size()});
      for (std::uint16_t bits : all) {
        const bool isNan = std::isnan(decode(small.format, bits));
        const std::uint16_t expected = isNan ? encode(small.format, std::nanf("")) : bits;
        ASSERT_EQ(result[bits], expected) << kernels->name << " " << nameOf(small.type) << " " << bits;
      }
    }
  }
}

/// All 65536 values, scaled by factors that reach ties, overflow, underflow and the denormals.
TEST(Numerics, EverySmallFloatRoundsOnce) {
  const auto all = allPatterns();
  const void* const source = all.data();
  const double factors[] = {1 + 0x1p-8, 1 + 0x1p-9, 1 + 0x1p-11, 1 + 0x1p-12, 1 - 0x1p-12, 1.0 / 3, 1e-3,
                            0x1.8p-10,  0x1.fp-120, 0x1p-14,     3e38,        1e5,         -0.7,    1e-45};
  for (const Named& small : kSmallTypes) {
    for (double factor : factors) {
      const auto expected = expectedReduction(small.type, ReduceOp::premulSum, {source}, &factor, all.size());
      for (const KernelTable* kernels : kernelTables()) {
        std::vector<char> result(expected.size());
        void* const destination = result.data();
        reduceWith(*kernels, {small.type, ReduceOp::premulSum, {&source, 1}, {&destination, 1}, all.size(), &factor});
        ASSERT_EQ(result, expected) << kernels->name << " " << nameOf(small.type) << " times " << factor;
      }
    }
  }
}

TEST(Numerics, SmallFloatsAreSummedWide) {
  // 2048 + 1 + 1 is 2050 when only the end is rounded, 2048 when every addition is.
  const auto half = [](float value) { return encode(kFloat16, value); };
  EXPECT_EQ(reduceOne<std::uint16_t>(DataType::float16, ReduceOp::sum, {half(2048), half(1), half(1)}), half(2050));
  EXPECT_EQ(reduceOne<std::uint16_t>(DataType::float16, ReduceOp::sum, {half(60000), half(60000), half(-60000)}),
            half(60000));
  const auto brain = [](float value) { return encode(kBfloat16, value); };
  EXPECT_EQ(reduceOne<std::uint16_t>(DataType::bfloat16, ReduceOp::sum, {brain(256), brain(1), brain(1)}), brain(258));
  // The average of three divides the wide sum: 65504 * 3 is beyond float16.
  EXPECT_EQ(reduceOne<std::uint16_t>(DataType::float16, ReduceOp::average, {half(65504), half(65504), half(65504)}),
            half(65504));
}

TEST(Numerics, PremultipliedProductsAreRoundedBeforeTheyAreSummed) {
  const auto brain = [](float value) { return encode(kBfloat16, value); };
  // 1.0078125 * 1.5 = 1.51171875 lies between 1.5078125 and 1.515625, the even one.
  EXPECT_EQ(
      reduceOne<std::uint16_t>(DataType::bfloat16, ReduceOp::premulSum, {brain(1.0078125f), brain(-1.5f)}, {1.5, 1}),
      brain(1.515625f - 1.5f));
  EXPECT_EQ(reduceOne<float>(DataType::float32, ReduceOp::premulSum, {2, 3}, {0.5, -2}), -5.0f);
}

TEST(Numerics, NanAndZerosWhateverTheOrder) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = {-0.0f, 0.0f, 0.0f, 0.0f};
  std::sort(values.begin(), values.end(), [](float a, float b) { return std::signbit(a) > std::signbit(b); });
  for (std::size_t turn = 0; turn < values.size(); ++turn) {
    std::rotate(values.begin(), values.begin() + 1, values.end());
    EXPECT_TRUE(std::signbit(reduceOne(DataType::float32, ReduceOp::min, values)));
    EXPECT_FALSE(std::signbit(reduceOne(DataType::float32, ReduceOp::max, values)));
  }
  std::vector<float> mixed = {1, -infinity, nan, infinity, -0.0f};
  for (std::size_t turn = 0; turn < mixed.size(); ++turn) {
    std::rotate(mixed.begin(), mixed.begin() + 1, mixed.end());
    for (ReduceOp op : {ReduceOp::min, ReduceOp::max, ReduceOp::sum, ReduceOp::product, ReduceOp::average}) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(reduceOne(DataType::float32, op, mixed)), 0x7fc00000u) << nameOf(op);
    }
  }
  EXPECT_EQ(reduceOne<float>(DataType::float32, ReduceOp::max, {-infinity, -3, -5}), -3);
  EXPECT_EQ(reduceOne<double>(DataType::float64, ReduceOp::min, {infinity, 5, 3}), 3);
}

TEST(Numerics, EveryNanBecomesTheSame) {
  for (std::uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu, 0xffc12345u}) {
    const float nan = std::bit_cast<float>(bits);
    for (ReduceOp op : {ReduceOp::min, ReduceOp::max, ReduceOp::sum, ReduceOp::product, ReduceOp::average}) {
      for (const auto& inputs : {std::vector{nan}, std::vector{1.0f, nan}, std::vector{nan, 1.0f}}) {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(reduceOne(DataType::float32, op, inputs)), 0x7fc00000u);
      }
    }
  }
}

TEST(Numerics, IntegersWrapAndDivideTowardZero) {
  EXPECT_EQ(reduceOne<std::int8_t>(DataType::int8, ReduceOp::sum, {127, 1}), -128);
  EXPECT_EQ(reduceOne<std::int8_t>(DataType::int8, ReduceOp::average, {-3, -4}), -3);
  EXPECT_EQ(reduceOne<std::int8_t>(DataType::int8, ReduceOp::average, {100, 100}), -28);
  EXPECT_EQ(reduceOne<std::uint8_t>(DataType::uint8, ReduceOp::average, {200, 55}), 127);
  EXPECT_EQ(reduceOne<std::int32_t>(DataType::int32, ReduceOp::average, {-7, 0}), -3);
  EXPECT_EQ(reduceOne<std::int64_t>(DataType::int64, ReduceOp::average, {-7, 0, 0}), -2);
  const std::uint64_t top = ~std::uint64_t{0};
  EXPECT_EQ(reduceOne<std::uint64_t>(DataType::uint64, ReduceOp::average, {top, 0}), top / 2);
  EXPECT_EQ(reduceOne<std::uint32_t>(DataType::uint32, ReduceOp::max, {0x80000000u, 1}), 0x80000000u);
  EXPECT_EQ(reduceOne<std::int32_t>(DataType::int32, ReduceOp::max, {std::numeric_limits<std::int32_t>::min(), 1}), 1);
}

/// Quotients are made in floating point: every 16-bit sum, and 32-bit sums beside the multiples of the divisor.
TEST(Numerics, QuotientsAreExact) {
  const auto all = allPatterns();
  std::vector<std::uint32_t> beside;
  for (std::uint32_t divisor : {3u, 7u, 33u}) {
    for (std::uint32_t step = 0; step < 2000; ++step) {
      const std::uint32_t multiple = 0xffffffffu / divisor * divisor - step * 1299709u / divisor * divisor;
      beside.insert(beside.end(), {multiple - 1, multiple, multiple + 1});
    }
  }
  const std::vector<std::uint32_t> zeros(std::max(all.size(), beside.size()), 0);
  const auto check = [&](DataType type, const void* values, std::size_t count) {
    for (std::size_t sourceCount : {2, 3, 7, 33}) {
      std::vector<const void*> sources(sourceCount, zeros.data());
      sources[1] = values;
      const auto expected = expectedReduction(type, ReduceOp::average, sources, nullptr, count);
      for (const KernelTable* kernels : kernelTables()) {
        std::vector<char> result(expected.size());
        void* const destination = result.data();
        reduceWith(*kernels, {type, ReduceOp::average, sources, {&destination, 1}, count});
        ASSERT_EQ(result, expected) << kernels->name << " " << nameOf(type) << " by " << sourceCount;
      }
    }
  };
  check(DataType::int16, all.data(), all.size());
  check(DataType::uint16, all.data(), all.size());
  check(DataType::int32, beside.data(), beside.size());
  check(DataType::uint32, beside.data(), beside.size());
}

TEST(Numerics, AnyByteButZeroIsTrue) {
  EXPECT_EQ(reduceOne<std::uint8_t>(DataType::boolean, ReduceOp::product, {2, 1}), 1);
  EXPECT_EQ(reduceOne<std::uint8_t>(DataType::boolean, ReduceOp::sum, {0, 0x80}), 1);
  EXPECT_EQ(reduceOne<std::uint8_t>(DataType::boolean, ReduceOp::bitXor, {2, 4}), 0);
  EXPECT_EQ(reduceOne<std::uint8_t>(DataType::boolean, ReduceOp::min, {255}), 1);
}

#if defined(__SSE2__)
TEST(Numerics, TheCallersFloatingPointModeChangesNothing) {
  constexpr unsigned kFlushUpward = _MM_FLUSH_ZERO_ON | 0x40 /* denormals are zero */ | _MM_ROUND_UP | _MM_MASK_MASK;
  for (const KernelTable* kernels : kernelTables()) {
    for (auto [type, op] : reducibleCases()) {
      constexpr std::size_t kCount = 97;
      const std::vector<char> inputs[] = {pattern(type, kCount, 5), pattern(type, kCount, 6)};
      const void* const sources[] = {inputs[0].data(), inputs[1].data()};
      const double factors[] = {0.3, 0x1p-20};
      const auto expected = expectedReduction(type, op, {sources[0], sources[1]}, factors, kCount);
      std::vector<char> result(expected.size());
      void* const destination = result.data();

      const unsigned before = _mm_getcsr();
      _mm_setcsr(kFlushUpward);
      reduceWith(*kernels, {type, op, sources, {&destination, 1}, kCount, factors});
      const unsigned after = _mm_getcsr() & ~unsigned{_MM_EXCEPT_MASK};
      _mm_setcsr(before);
      ASSERT_EQ(after, kFlushUpward);
      ASSERT_EQ(result, expected) << kernels->name << " " << nameOf(type) << " " << nameOf(op);
    }
  }
}
#endif

}  // namespace
}  // namespace symccl::test
