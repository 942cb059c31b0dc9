#include "base/log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <vector>

#include "base/log_format.hpp"

namespace symccl {
namespace {

TEST(Log, LineFormat) {
  using namespace std::chrono;
  const sys_days day(year(2026) / 2 / 28);
  const LineOrigin origin{day + hours(23) + minutes(5) + seconds(9) + microseconds(42), "box", 12, 34, 5};
  EXPECT_EQ(formatLine(origin, LogLevel::info, "COMM", "created dp"),
            "2026-02-28T23:05:09.000042Z box:12:34 rank 5 INFO COMM created dp\n");
}

TEST(Log, NoRankIsADash) {
  const LineOrigin origin{{}, "box", 1, 2, -1};
  EXPECT_EQ(formatLine(origin, LogLevel::warn, "POOL", "x"),
            "1970-01-01T00:00:00.000000Z box:1:2 rank - WARN POOL x\n");
}

TEST(Log, OneLineStaysOneLine) {
  const LineOrigin origin{{}, "box", 1, 2, 0};
  const std::string line = formatLine(origin, LogLevel::trace, "COMM", "a\nb\rc\td\x1b[1m");
  EXPECT_TRUE(line.ends_with(" TRACE COMM a b c d [1m\n")) << line;
}

TEST(Log, SubsystemFilter) {
  EXPECT_TRUE(subsystemWanted("", "COMM"));
  EXPECT_TRUE(subsystemWanted("COMM", "COMM"));
  EXPECT_FALSE(subsystemWanted("COMM", "POOL"));
  EXPECT_FALSE(subsystemWanted("COMM", "COM"));
  EXPECT_FALSE(subsystemWanted("COMM", "COMMS"));
  EXPECT_TRUE(subsystemWanted("COMM,POOL", "POOL"));
  EXPECT_FALSE(subsystemWanted("^COMM", "COMM"));
  EXPECT_TRUE(subsystemWanted("^COMM", "POOL"));
  EXPECT_FALSE(subsystemWanted("^COMM,POOL", "INIT"));
  EXPECT_TRUE(subsystemWanted("ALL,^COMM", "INIT"));
  EXPECT_FALSE(subsystemWanted("ALL,^COMM", "COMM"));
  EXPECT_TRUE(subsystemWanted("^ALL,COMM", "COMM"));
  EXPECT_FALSE(subsystemWanted("^ALL,COMM", "POOL"));
  EXPECT_TRUE(subsystemWanted("^COMM,COMM", "COMM"));
}

TEST(Log, FileNames) {
  EXPECT_EQ(expandFileName("/x/%h-%p.log", "box", 77), "/x/box-77.log");
  EXPECT_EQ(expandFileName("100%%p", "box", 77), "100%p");
  EXPECT_EQ(expandFileName("plain", "box", 77), "plain");
}

TEST(Log, Levels) {
  EXPECT_EQ(levelFromText("none"), LogLevel::none);
  EXPECT_EQ(levelFromText("version"), LogLevel::version);
  EXPECT_EQ(levelFromText("warn"), LogLevel::warn);
  EXPECT_EQ(levelFromText("info"), LogLevel::info);
  EXPECT_EQ(levelFromText("trace"), LogLevel::trace);
}

// The environment is read once, so the tests below run log_writer.cpp as a process of its own.
class LogRun : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "symccl-log-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Runs log_writer with `settings`; its standard error.
  std::string run(std::vector<std::string> settings) {
    std::vector<std::string> arguments = {LOG_WRITER};
    for (char** entry = ::environ; *entry; ++entry) {
      if (!std::string(*entry).starts_with("SYMCCL_")) settings.emplace_back(*entry);
    }
    const auto pointers = [](std::vector<std::string>& strings) {
      std::vector<char*> result;
      for (auto& string : strings) result.push_back(string.data());
      result.push_back(nullptr);
      return result;
    };
    const std::string errors = folder_ + "/stderr";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    pid_t pid = -1;
    EXPECT_EQ(::posix_spawn(&pid, LOG_WRITER, &actions, nullptr, pointers(arguments).data(), pointers(settings).data()),
              0);
    posix_spawn_file_actions_destroy(&actions);
    int status = -1;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
    return content(errors);
  }
  static std::string content(const std::string& path) {
    std::ostringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  }
  static std::vector<std::string> lines(const std::string& all) {
    std::vector<std::string> result;
    std::istringstream in(all);
    for (std::string line; std::getline(in, line);) result.push_back(line);
    return result;
  }
  std::string folder_;
};

TEST_F(LogRun, NothingUnlessAsked) {
  EXPECT_EQ(run({}), "");
  EXPECT_EQ(run({"SYMCCL_HEAPSIZE=1G"}), "");
}

TEST_F(LogRun, WholeLinesOfTheAgreedForm) {
  const std::string all = run({"SYMCCL_DEBUG=INFO"});
  const std::regex form(
      R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z [^ :]+:\d+:\d+ rank (-|\d+) (VERSION|WARN|INFO) [A-Z]+ .+)");
  for (const std::string& line : lines(all)) EXPECT_TRUE(std::regex_match(line, form)) << line;
  EXPECT_EQ(lines(all).size(), 1 + 4 * 50 + 1 + 1 + 1u);
  EXPECT_NE(all.find("SymCCL version "), std::string::npos);
  for (int t = 0; t < 4; ++t) {
    for (int i = 0; i < 50; ++i) {
      const std::string wanted = text(" rank ", t, " INFO COMM thread ", t, " line ", i, "\n");
      EXPECT_NE(all.find(wanted), std::string::npos) << wanted;
    }
  }
  EXPECT_EQ(all.find("traced"), std::string::npos);
}

TEST_F(LogRun, SubsystemsButEveryWarning) {
  const std::string all = run({"SYMCCL_DEBUG=trace", "SYMCCL_DEBUG_SUBSYS=^pool"});
  EXPECT_EQ(all.find("pooled"), std::string::npos);
  EXPECT_NE(all.find("warned"), std::string::npos);
  EXPECT_NE(all.find("traced"), std::string::npos);
}

TEST_F(LogRun, UnknownVariableIsWarnedAboutOnce) {
  const std::string all = run({"SYMCCL_DEBUG=warn", "SYMCCL_HEAPSIZE=1G"});
  const std::string sentence = "SYMCCL_HEAPSIZE is unknown and has no effect; the nearest one is SYMCCL_HEAP_SIZE";
  const auto at = all.find(sentence);
  ASSERT_NE(at, std::string::npos) << all;
  EXPECT_EQ(all.find(sentence, at + 1), std::string::npos);
}

TEST_F(LogRun, OneFileAProcess) {
  EXPECT_EQ(run({"SYMCCL_DEBUG=info", "SYMCCL_DEBUG_FILE=" + folder_ + "/%h.%p.log"}), "");
  std::vector<std::string> contents;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (entry.path().extension() == ".log") contents.push_back(content(entry.path()));
  }
  ASSERT_EQ(contents.size(), 2u);
  if (lines(contents[0]).size() > 1) std::swap(contents[0], contents[1]);
  EXPECT_EQ(lines(contents[0]).size(), 1u);
  EXPECT_NE(contents[0].find("from the child"), std::string::npos);
  EXPECT_EQ(lines(contents[1]).size(), 1 + 4 * 50 + 2u);
}

TEST_F(LogRun, FileThatCannotBeOpenedIsSaidAndStandardErrorTaken) {
  const std::string all = run({"SYMCCL_DEBUG=warn", "SYMCCL_DEBUG_FILE=/nowhere/at/all"});
  EXPECT_NE(all.find("WARN LOG opening SYMCCL_DEBUG_FILE /nowhere/at/all failed: ENOENT"), std::string::npos) << all;
  EXPECT_NE(all.find("warned"), std::string::npos);
}

TEST_F(LogRun, MalformedLevelPrintsNothing) { EXPECT_EQ(run({"SYMCCL_DEBUG=shout"}), ""); }

}  // namespace
}  // namespace symccl
