#include "symccl/types.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "kernels/dispatch.hpp"

namespace symccl::test {
namespace {

TEST(Types, SizesOfElements) {
  EXPECT_EQ(sizeOf(DataType::byte), 1u);
  EXPECT_EQ(sizeOf(DataType::boolean), 1u);
  EXPECT_EQ(sizeOf(DataType::uint16), 2u);
  EXPECT_EQ(sizeOf(DataType::float16), 2u);
  EXPECT_EQ(sizeOf(DataType::bfloat16), 2u);
  EXPECT_EQ(sizeOf(DataType::float32), 4u);
  EXPECT_EQ(sizeOf(DataType::int64), 8u);
  EXPECT_EQ(sizeOf(DataType::complex64), 8u);
  EXPECT_EQ(sizeOf(DataType::complex128), 16u);
  EXPECT_EQ(sizeOf(DataType::float8_e5m2fnuz), 1u);
  for (int type = 0; type < kDataTypes; ++type) EXPECT_GT(sizeOf(static_cast<DataType>(type)), 0u) << type;
}

TEST(Types, EveryNameIsItsOwn) {
  std::set<std::string> names;
  for (int type = 0; type < kDataTypes; ++type) names.insert(nameOf(static_cast<DataType>(type)));
  for (int op = 0; op < kReduceOps; ++op) names.insert(nameOf(static_cast<ReduceOp>(op)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kDataTypes + kReduceOps));
  EXPECT_STREQ(nameOf(DataType::float32), "float32");
  EXPECT_STREQ(nameOf(DataType::float8_e4m3fn), "float8_e4m3fn");
  EXPECT_STREQ(nameOf(ReduceOp::premulSum), "premulSum");
}

TEST(Types, WhatIsReducible) {
  for (int op = 0; op < kReduceOps; ++op) {
    EXPECT_FALSE(reducible(DataType::byte, static_cast<ReduceOp>(op)));
    EXPECT_FALSE(reducible(DataType::float8_e4m3fn, static_cast<ReduceOp>(op)));
  }
  EXPECT_TRUE(reducible(DataType::boolean, ReduceOp::bitXor));
  EXPECT_FALSE(reducible(DataType::boolean, ReduceOp::average));
  EXPECT_FALSE(reducible(DataType::boolean, ReduceOp::premulSum));
  EXPECT_TRUE(reducible(DataType::uint64, ReduceOp::average));
  EXPECT_FALSE(reducible(DataType::int32, ReduceOp::premulSum));
  EXPECT_TRUE(reducible(DataType::bfloat16, ReduceOp::premulSum));
  EXPECT_FALSE(reducible(DataType::float32, ReduceOp::bitAnd));
  EXPECT_TRUE(reducible(DataType::complex64, ReduceOp::product));
  EXPECT_FALSE(reducible(DataType::complex128, ReduceOp::min));
}

TEST(Types, EveryInstructionSetHasWhatIsReducibleAndNoMore) {
  for (const KernelTable* kernels : kernelTables()) {
    for (int type = 0; type < kDataTypes; ++type) {
      for (int op = 0; op < kReduceOps; ++op) {
        EXPECT_EQ(kernels->reduce[type][op] != nullptr,
                  reducible(static_cast<DataType>(type), static_cast<ReduceOp>(op)))
            << kernels->name << " " << nameOf(static_cast<DataType>(type)) << " " << nameOf(static_cast<ReduceOp>(op));
      }
    }
  }
}

TEST(Dispatch, AVariableCanOnlyLowerTheInstructionSet) {
  const auto tables = kernelTables();
  EXPECT_EQ(&chooseKernels("auto"), tables.front());
  EXPECT_EQ(&chooseKernels("avx512"), tables.front());
  EXPECT_EQ(&chooseKernels("portable"), tables.back());
  EXPECT_STREQ(tables.back()->name, "portable");
  for (const KernelTable* kernels : tables) EXPECT_EQ(&chooseKernels(kernels->name), kernels);
}

}  // namespace
}  // namespace symccl::test
