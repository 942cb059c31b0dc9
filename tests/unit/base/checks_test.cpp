#include "base/checks.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace symccl {
namespace {

TEST(Checks, ErrnoHasNameAndText) {
  EXPECT_EQ(errnoText(ENOSPC), "ENOSPC (No space left on device)");
  EXPECT_EQ(errnoText(54321), "errno 54321");
}

TEST(Checks, SystemErrorKeepsErrnoAndOperands) {
  errno = EACCES;
  const Error error = systemError("open(", std::string("/x/y"), ", ", 7, ")");
  EXPECT_EQ(error.code(), Code::system);
  EXPECT_EQ(error.message(), "open(/x/y, 7) failed: EACCES (Permission denied)");
}

TEST(Checks, InvalidAndInternal) {
  EXPECT_EQ(invalid("root ", 9, " of ", 8).code(), Code::invalid);
  EXPECT_EQ(invalid("root ", 9, " of ", 8).message(), "root 9 of 8");
  EXPECT_EQ(internalError("x").code(), Code::internal);
  EXPECT_EQ(internalError("x").message(), "bug in SymCCL: x");
}

TEST(Checks, ContextComesInFront) {
  const Error error = Error(Code::dead, "rank 3 is gone", 3).in("creating 'dp'");
  EXPECT_EQ(error.message(), "creating 'dp': rank 3 is gone");
  EXPECT_EQ(error.rank(), 3);
  EXPECT_EQ(error.code(), Code::dead);
}

TEST(Checks, EveryCodeHasItsOwnName) {
  std::set<std::string> names;
  for (int code = 0; code <= static_cast<int>(Code::internal); ++code) names.insert(codeName(static_cast<Code>(code)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Code::internal) + 1);
  EXPECT_EQ(names.count("unknown"), 0u);
  EXPECT_STREQ(codeName(Code::timeout), "timeout");
  EXPECT_STREQ(codeName(static_cast<Code>(200)), "unknown");
}

}  // namespace
}  // namespace symccl
