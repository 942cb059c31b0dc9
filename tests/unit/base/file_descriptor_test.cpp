#include "base/file_descriptor.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace symccl {
namespace {

bool isOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }
int openSomething() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

TEST(FileDescriptor, EmptyOwnsNothing) {
  const FileDescriptor none;
  EXPECT_FALSE(none);
  EXPECT_EQ(none.get(), -1);
}

TEST(FileDescriptor, ClosesAtTheEnd) {
  const int fd = openSomething();
  {
    const FileDescriptor owner(fd);
    EXPECT_TRUE(owner);
    EXPECT_TRUE(isOpen(fd));
  }
  EXPECT_FALSE(isOpen(fd));
}

TEST(FileDescriptor, ZeroIsADescriptor) {
  FileDescriptor zero(0);
  EXPECT_TRUE(zero);
  EXPECT_EQ(zero.release(), 0);
}

TEST(FileDescriptor, MoveLeavesNothingBehind) {
  const int fd = openSomething();
  FileDescriptor first(fd);
  FileDescriptor second(std::move(first));
  EXPECT_FALSE(first);
  EXPECT_EQ(second.get(), fd);

  const int replaced = openSomething();
  FileDescriptor third(replaced);
  third = std::move(second);
  EXPECT_FALSE(isOpen(replaced));
  EXPECT_EQ(third.get(), fd);
  EXPECT_TRUE(isOpen(fd));

  FileDescriptor& same = third;
  third = std::move(same);
  EXPECT_EQ(third.get(), fd);
  EXPECT_TRUE(isOpen(fd));
}

TEST(FileDescriptor, ReleaseKeepsOpenAndResetCloses) {
  const int fd = openSomething();
  FileDescriptor owner(fd);
  EXPECT_EQ(owner.release(), fd);
  EXPECT_FALSE(owner);
  EXPECT_TRUE(isOpen(fd));
  FileDescriptor again(fd);
  again.reset();
  EXPECT_FALSE(isOpen(fd));
  again.reset();
}

}  // namespace
}  // namespace symccl
