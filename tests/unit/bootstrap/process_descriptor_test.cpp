#include "bootstrap/process_descriptor.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <vector>

namespace symccl {
namespace {

FileDescriptor someDescriptor() { return FileDescriptor(::eventfd(0, EFD_CLOEXEC)); }

bool isOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

/// Runs `check` in a forked child; whether it returned true.
template <class Check>
bool inChild(Check check) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(check() ? 0 : 1);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(ProcessDescriptor, OwnsAndMoves) {
  ProcessDescriptor one(someDescriptor());
  const int fd = one.get();
  ASSERT_TRUE(isOpen(fd));
  ProcessDescriptor two(std::move(one));
  EXPECT_FALSE(one);
  EXPECT_EQ(two.get(), fd);
  ProcessDescriptor three(someDescriptor());
  const int replaced = three.get();
  three = std::move(two);
  EXPECT_EQ(three.get(), fd);
  EXPECT_FALSE(isOpen(replaced));
  three.reset();
  EXPECT_FALSE(isOpen(fd));
}

TEST(ProcessDescriptor, NoneIsNone) {
  ProcessDescriptor none(FileDescriptor{});
  EXPECT_FALSE(none);
  none.reset();
  EXPECT_EQ(none.get(), -1);
}

TEST(ProcessDescriptor, ForkedChildrenDoNotKeepIt) {
  std::vector<ProcessDescriptor> many;
  for (int i = 0; i < 100; ++i) many.emplace_back(someDescriptor());
  many.erase(many.begin() + 10, many.begin() + 50);  // holes in the list
  const FileDescriptor plain = someDescriptor();
  EXPECT_TRUE(inChild([&] {
    for (const auto& one : many) {
      if (isOpen(one.get())) return false;
    }
    return isOpen(plain.get());
  }));
  for (const auto& one : many) EXPECT_TRUE(isOpen(one.get()));
}

TEST(ProcessDescriptor, InAChildItsDestructorClosesNothing) {
  std::optional<ProcessDescriptor> one(someDescriptor());
  const int number = one->get();
  EXPECT_TRUE(inChild([&] {
    const FileDescriptor other = someDescriptor();
    if (::dup2(other.get(), number) != number) return false;  // the number now belongs to something else
    one.reset();
    return isOpen(number);
  }));
}

TEST(ProcessDescriptor, ANumberThatWasGivenBackIsNotClosedInChildren) {
  int number = 0;
  {
    ProcessDescriptor gone(someDescriptor());
    number = gone.get();
  }
  const FileDescriptor next = someDescriptor();
  ASSERT_EQ(next.get(), number) << "the system hands out the lowest free number";
  EXPECT_TRUE(inChild([&] { return isOpen(number); }));
}

}  // namespace
}  // namespace symccl
