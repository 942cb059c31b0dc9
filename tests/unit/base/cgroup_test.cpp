#include "base/cgroup.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace symccl {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kM = std::size_t{1} << 20;

/// A folder that takes the place of /sys/fs/cgroup.
class CgroupTree : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "symccl cgroup XXXXXX";  // spaces are escaped in mountinfo
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    top_ = name;
  }
  void TearDown() override { fs::remove_all(top_); }

  void write(const std::string& file, const std::string& content) {
    const fs::path path = top_ + "/" + file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << content;
  }
  std::string mountLine(const std::string& folder, const std::string& root, const std::string& rest) const {
    std::string escaped;
    for (const char c : top_ + folder) escaped += c == ' ' ? "\\040" : std::string(1, c);
    return "31 23 0:28 " + root + " " + escaped + " rw,relatime shared:9 - " + rest + "\n";
  }
  std::string top_;
};

TEST_F(CgroupTree, MountinfoOfBothVersions) {
  const auto mounts =
      parseCgroupMounts("22 1 8:1 / / rw - ext4 /dev/sda rw\n" + mountLine("/u", "/", "cgroup2 cgroup2 rw") +
                        mountLine("/c", "/docker/7", "cgroup cgroup rw,cpu,cpuacct") + "broken line\n\n");
  ASSERT_EQ(mounts.size(), 2u);
  EXPECT_EQ(mounts[0].folder, top_ + "/u");
  EXPECT_TRUE(mounts[0].controllers.empty());
  EXPECT_EQ(mounts[1].root, "/docker/7");
  EXPECT_EQ(mounts[1].controllers, (std::vector<std::string>{"rw", "cpu", "cpuacct"}));
}

TEST_F(CgroupTree, LevelsFromOwnToTop) {
  const auto mounts = parseCgroupMounts(mountLine("", "/", "cgroup2 cgroup2 rw"));
  const auto levels = cgroupLevels(mounts, "0::/a/b c/d\n", "memory");
  ASSERT_EQ(levels.size(), 4u);
  EXPECT_EQ(levels[0].folder, top_ + "/a/b c/d");
  EXPECT_EQ(levels[0].path, "/a/b c/d");
  EXPECT_EQ(levels[2].folder, top_ + "/a");
  EXPECT_EQ(levels[3].folder, top_);
  EXPECT_EQ(levels[3].path, "/");
  EXPECT_TRUE(levels[0].unified);
}

TEST_F(CgroupTree, PathsAreRelativeToWhatIsMounted) {
  const auto mounts = parseCgroupMounts(mountLine("", "/docker/7", "cgroup cgroup rw,memory"));
  const auto folders = [&](const std::string& path) {
    std::vector<std::string> found;
    for (const auto& level : cgroupLevels(mounts, "4:memory:" + path + "\n", "memory")) found.push_back(level.folder);
    return found;
  };
  EXPECT_EQ(folders("/docker/7/job"), (std::vector<std::string>{top_ + "/job", top_}));
  EXPECT_EQ(folders("/docker/7"), (std::vector<std::string>{top_}));
  EXPECT_EQ(folders("/docker/77"), (std::vector<std::string>{top_}));  // elsewhere: at least the top counts
  EXPECT_EQ(folders("/"), (std::vector<std::string>{top_}));
}

TEST_F(CgroupTree, OutsideOfTheNamespaceMeansTheTop) {
  const auto mounts = parseCgroupMounts(mountLine("", "/", "cgroup2 cgroup2 rw"));
  const auto levels = cgroupLevels(mounts, "0::/../other\n", "cpu");
  ASSERT_EQ(levels.size(), 1u);
  EXPECT_EQ(levels[0].folder, top_);
}

TEST_F(CgroupTree, TheSchedulersGroupIsTheInnermostWithShares) {
  const std::vector<CgroupLevel> unified{{top_ + "/a/b", "/a/b", true}, {top_ + "/a", "/a", true}, {top_, "/", true}};
  EXPECT_EQ(cgroupOfScheduler(unified), nullptr);
  write("a/cpu.weight", "100\n");
  EXPECT_EQ(cgroupOfScheduler(unified), &unified[1]);
  write("a/b/cpu.weight", "100\n");
  EXPECT_EQ(cgroupOfScheduler(unified), &unified[0]);
}

TEST_F(CgroupTree, TheRootOfTheFirstVersionIsNoGroupOfItsOwn) {
  const std::vector<CgroupLevel> levels{{top_ + "/a", "/a", false}, {top_, "/", false}};
  write("cpu.shares", "1024\n");
  EXPECT_EQ(cgroupOfScheduler(levels), &levels[1]);  // the top of what a container sees
  write("release_agent", "\n");
  EXPECT_EQ(cgroupOfScheduler(levels), nullptr);
  write("a/cpu.shares", "1024\n");
  EXPECT_EQ(cgroupOfScheduler(levels), &levels[0]);
}

TEST_F(CgroupTree, OnlyTheControllersHierarchyAndTheUnifiedOne) {
  const auto mounts = parseCgroupMounts(mountLine("/cpu", "/", "cgroup cgroup rw,cpu,cpuacct") +
                                        mountLine("/memory", "/", "cgroup cgroup rw,memory") +
                                        mountLine("/unified", "/", "cgroup2 none rw"));
  const std::string membership = "3:cpuacct,cpu:/c\n2:memory:/m\n1:name=systemd:/s\n0::/u\nnonsense\n";
  const auto levels = cgroupLevels(mounts, membership, "cpu");
  ASSERT_EQ(levels.size(), 4u);
  EXPECT_EQ(levels[0].folder, top_ + "/cpu/c");
  EXPECT_FALSE(levels[0].unified);
  EXPECT_EQ(levels[2].folder, top_ + "/unified/u");
  EXPECT_TRUE(cgroupLevels({}, membership, "cpu").empty());
  EXPECT_TRUE(cgroupLevels(mounts, "", "cpu").empty());
}

TEST_F(CgroupTree, LeastQuotaOfThePath) {
  write("cpu.max", "max 100000\n");
  write("a/cpu.max", "150000 100000\n");
  write("a/b/cpu.max", "80000 20000\n");
  const std::vector<CgroupLevel> levels = {{top_ + "/a/b", "/a/b", true}, {top_ + "/a", "/a", true}, {top_, "/", true}};
  ASSERT_TRUE(cgroupCpuQuota(levels));
  EXPECT_DOUBLE_EQ(*cgroupCpuQuota(levels), 1.5);
  EXPECT_DOUBLE_EQ(*cgroupCpuQuota({levels[0]}), 4.0);
  EXPECT_FALSE(cgroupCpuQuota({levels[2]}));
  EXPECT_FALSE(cgroupCpuQuota({}));
}

TEST_F(CgroupTree, QuotaOfVersionOne) {
  write("cpu.cfs_quota_us", "-1\n");
  write("cpu.cfs_period_us", "100000\n");
  write("a/cpu.cfs_quota_us", "50000\n");
  write("a/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(cgroupCpuQuota({{top_, "/", false}}));
  EXPECT_DOUBLE_EQ(cgroupCpuQuota({{top_ + "/a", "/a", false}, {top_, "/", false}}).value(), 0.5);
}

TEST_F(CgroupTree, MalformedFilesAreNoLimit) {
  for (const char* content : {"", "x y\n", "100000\n", "100000 0\n", "0 100000\n", "-5 100000\n", "1 2 3\n"}) {
    write("cpu.max", content);
    EXPECT_FALSE(cgroupCpuQuota({{top_, "/", true}})) << content;
  }
  for (const char* content : {"", "x\n", "max\n", "-1\n"}) {
    write("memory.max", content);
    EXPECT_FALSE(cgroupMemoryLeft({{top_, "/", true}})) << content;
  }
}

TEST_F(CgroupTree, LeastMemoryOfThePath) {
  write("memory.max", "max\n");
  write("a/memory.max", std::to_string(1024 * kM) + "\n");
  write("a/memory.current", std::to_string(1000 * kM) + "\n");
  write("a/memory.stat", "anon 5\nfile 9\ninactive_file " + std::to_string(100 * kM) + "\nactive_file 7\n");
  write("a/b/memory.max", std::to_string(256 * kM) + "\n");
  write("a/b/memory.current", std::to_string(30 * kM) + "\n");
  const std::vector<CgroupLevel> levels = {{top_ + "/a/b", "/a/b", true}, {top_ + "/a", "/a", true}, {top_, "/", true}};
  const auto least = cgroupMemoryLeft(levels);
  ASSERT_TRUE(least);
  EXPECT_EQ(least->left, 124 * kM);
  EXPECT_EQ(least->limit, "cgroup /a (memory.max 1 GiB)");
  EXPECT_EQ(cgroupMemoryLeft({levels[0]})->left, 226 * kM);
  EXPECT_FALSE(cgroupMemoryLeft({levels[2]}));
}

TEST_F(CgroupTree, MemoryOfVersionOne) {
  write("memory.limit_in_bytes", "9223372036854771712\n");
  write("memory.usage_in_bytes", "1\n");
  write("j/memory.limit_in_bytes", std::to_string(512 * kM) + "\n");
  write("j/memory.usage_in_bytes", std::to_string(500 * kM) + "\n");
  write("j/memory.stat",
        "inactive_file " + std::to_string(400 * kM) + "\ntotal_inactive_file " + std::to_string(11 * kM) + "\n");
  EXPECT_FALSE(cgroupMemoryLeft({{top_, "/", false}}));
  const auto least = cgroupMemoryLeft({{top_ + "/j", "/j", false}, {top_, "/", false}});
  ASSERT_TRUE(least);
  EXPECT_EQ(least->left, 23 * kM);
  EXPECT_EQ(least->limit, "cgroup /j (memory.limit_in_bytes 512 MiB)");
}

TEST_F(CgroupTree, UsedBeyondTheLimitLeavesNothing) {
  write("memory.max", std::to_string(10 * kM) + "\n");
  write("memory.current", std::to_string(11 * kM) + "\n");
  EXPECT_EQ(cgroupMemoryLeft({{top_, "/", true}})->left, 0u);
  write("memory.stat", "inactive_file " + std::to_string(900 * kM) + "\n");
  EXPECT_EQ(cgroupMemoryLeft({{top_, "/", true}})->left, 10 * kM);
}

}  // namespace
}  // namespace symccl
