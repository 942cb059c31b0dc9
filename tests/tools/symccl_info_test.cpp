// symccl-info as a user calls it: output, exit codes, and the committed page about the variables.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "base/environment.hpp"
#include "base/version.hpp"

namespace symccl {
namespace {

struct Ran {
  std::string output;  ///< standard output and error
  int code;
};

/// Runs `settings symccl-info arguments` in a shell, without the SYMCCL_* variables of this process.
Ran run(const std::string& arguments, const std::string& settings = "") {
  std::string command = "env";
  for (const Variable& variable : variables()) command += std::string(" -u ") + variable.name;
  command += " " + settings + " " SYMCCL_INFO " " + arguments + " 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  std::string output;
  char chunk[4096];
  while (const std::size_t got = std::fread(chunk, 1, sizeof chunk, pipe)) output.append(chunk, got);
  const int status = ::pclose(pipe);
  return {output, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

bool has(const std::string& all, const std::string& part) { return all.find(part) != std::string::npos; }

TEST(SymcclInfo, CommittedPageIsWhatTheTableSays) {
  std::ostringstream page;
  page << std::ifstream(VARIABLES_PAGE).rdbuf();
  const Ran ran = run("--markdown");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(page.str(), ran.output) << "docs/variables.md is out of date: build the target variables-page";
}

TEST(SymcclInfo, EveryVariableWithDefaultAcceptedAndMeaning) {
  const Ran ran = run("--env");
  EXPECT_EQ(ran.code, 0);
  for (const Variable& variable : variables()) {
    for (const char* part : {variable.name, variable.standard, variable.accepted, variable.meaning}) {
      EXPECT_TRUE(has(ran.output, part)) << part;
    }
  }
}

TEST(SymcclInfo, CurrentValuesButNoSecret) {
  const Ran ran = run("--env", "SYMCCL_HEAP_SIZE=3G SYMCCL_TOKEN=sesame SYMCCL_HEAPSIZE=1G");
  EXPECT_EQ(ran.code, 0);
  EXPECT_TRUE(has(ran.output, "now       3G\n")) << ran.output;
  EXPECT_TRUE(has(ran.output, "now       none (default)\n"));
  EXPECT_TRUE(has(ran.output, "now       set, not shown\n"));
  EXPECT_FALSE(has(ran.output, "sesame"));
  EXPECT_TRUE(has(ran.output, "SYMCCL_HEAPSIZE is unknown and has no effect; the nearest one is SYMCCL_HEAP_SIZE\n"));
}

TEST(SymcclInfo, EveryMalformedValueIsSaid) {
  const Ran ran = run("--env", "SYMCCL_HEAP_SIZE=huge SYMCCL_PATH=magic");
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(has(ran.output, "now       huge (malformed")) << ran.output;
  EXPECT_TRUE(has(ran.output, "now       magic (malformed"));
  EXPECT_TRUE(has(ran.output, "symccl-info: the variable SYMCCL_HEAP_SIZE is 'huge'; accepted: "));
}

TEST(SymcclInfo, VersionsEvenWithMalformedValues) {
  const Ran ran = run("--version", "SYMCCL_HEAP_SIZE=huge");
  EXPECT_EQ(ran.code, 0);
  EXPECT_TRUE(ran.output.starts_with(std::string("SymCCL ") + version() + "\n")) << ran.output;
  EXPECT_TRUE(has(ran.output, "compiler"));
  EXPECT_TRUE(has(ran.output, "revision"));
}

TEST(SymcclInfo, HostSaysWhatIsAllowed) {
  const Ran ran = run("--host");
  EXPECT_EQ(ran.code, 0);
  for (const char* name : {"cgroup quota", "usable", "instruction sets", "kernels in use", "left", "address space",
                           "huge pages", "heap window", "host identity", "memfd", "seals", "membarrier"}) {
    EXPECT_TRUE(has(ran.output, std::string("\n  ") + name + " ")) << name << " is not in\n" << ran.output;
  }
  EXPECT_TRUE(has(run("--host", "SYMCCL_MEMBARRIER=0").output, "no: SYMCCL_MEMBARRIER is 0"));
  EXPECT_TRUE(has(run("--host", "SYMCCL_ISA=portable").output, "  kernels in use      portable\n"));
}

TEST(SymcclInfo, HostKnowsTheLimitOfTheAddressSpace) {
  const Ran ran = run("--host", "prlimit --as=8589934592");
  EXPECT_EQ(ran.code, 0);
  EXPECT_TRUE(has(ran.output, " left of 8 GiB\n")) << ran.output;
}

TEST(SymcclInfo, EverythingWithoutOption) {
  const Ran ran = run("");
  EXPECT_EQ(ran.code, 0);
  for (const char* part : {"SymCCL ", "\nCPUs\n", "\nmemory\n", "\nkernel\n", "\nvariables\n", "SYMCCL_DEBUG\n"}) {
    EXPECT_TRUE(has(ran.output, part)) << part;
  }
}

TEST(SymcclInfo, HelpEndsWithThreeExamples) {
  const Ran ran = run("--help");
  EXPECT_EQ(ran.code, 0);
  const auto at = ran.output.find("Examples:\n");
  ASSERT_NE(at, std::string::npos);
  std::istringstream examples(ran.output.substr(at + 10));
  int count = 0;
  for (std::string line; std::getline(examples, line) && !line.empty(); ++count) EXPECT_TRUE(has(line, "symccl-info"));
  EXPECT_EQ(count, 3);
}

std::string lineOf(const std::string& output, const std::string& part) {
  const auto at = output.find(part);
  if (at == std::string::npos) return "";
  const auto from = output.rfind('\n', at) + 1;
  return output.substr(from, output.find('\n', at) - from);
}

TEST(SymcclInfo, PlanShowsEveryCandidateAndTheChoice) {
  const Ran ran = run("plan all_reduce 1M --ranks 4 --type bfloat16");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(ran.output.starts_with("all_reduce bfloat16 x 524288 (1 MiB), 4 ranks on ")) << ran.output;
  for (const char* name : {"two-shot", "one-shot", "staged reduce", "ring", "tree", "double tree", "halving-doubling"})
    EXPECT_TRUE(has(ran.output, std::string("\n  ") + name + " ")) << ran.output;
  EXPECT_TRUE(has(lineOf(ran.output, "  ring "), " us  only if asked for")) << ran.output;
  EXPECT_TRUE(has(lineOf(ran.output, "  inline line "), "not possible here")) << ran.output;
  const std::string chosen = lineOf(ran.output, "chosen");
  EXPECT_TRUE(has(chosen, "two-shot") || has(chosen, "one-shot")) << ran.output;
  EXPECT_TRUE(has(ran.output, ": hand-off ")) << ran.output;
}

TEST(SymcclInfo, PlanFollowsBuffersAndVariables) {
  const auto chosen = [](const std::string& arguments, const std::string& settings = "") {
    return lineOf(run("plan " + arguments, settings).output, "chosen");
  };
  EXPECT_TRUE(has(chosen("all_reduce 1M --path private"), "staged reduce"));
  EXPECT_TRUE(has(chosen("all_reduce 1M", "SYMCCL_PATH=staged"), "staged reduce"));
  EXPECT_TRUE(has(chosen("all_reduce 40"), "inline line"));
  EXPECT_TRUE(has(chosen("all_gather 4092"), "eager one-shot"));
  EXPECT_TRUE(has(chosen("all_gather 1M", "HCCL_ALGO=allgather=level0:H-D_R"), "halving-doubling"));
  EXPECT_TRUE(has(chosen("broadcast 4K", "HCCL_TREE_THRESHOLD=4K"), "tree"));
  EXPECT_FALSE(has(chosen("broadcast 8K", "HCCL_TREE_THRESHOLD=4K"), "tree"));
  EXPECT_TRUE(has(chosen("broadcast 8K", "HCCL_RING_THRESHOLD=8K"), "ring"));
}

TEST(SymcclInfo, PlanSaysWhatIsAccepted) {
  for (const auto& [arguments, accepted] :
       {std::pair("plan all_sum 1M", "all_reduce"), std::pair("plan all_reduce 1Q", "a number of bytes"),
        std::pair("plan all_reduce 1M --type float31", "bfloat16"),
        std::pair("plan all_reduce 1M --path odd", "private"), std::pair("plan all_reduce 1M --ranks 1", "2 to ")}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 2) << arguments;
    EXPECT_TRUE(has(ran.output, "accepted: ")) << ran.output;
    EXPECT_TRUE(has(ran.output, accepted)) << ran.output;
  }
  const Ran ran = run("plan all_reduce 1M", "HCCL_ALGO=level0:circle");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.output, "unknown algorithm 'circle'; accepted: NA, ")) << ran.output;
}

TEST(SymcclInfo, WrongUsageIsTwoAndASentence) {
  for (const char* arguments : {"--bogus", "surplus", "--env --host", "--env=3x"}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 2) << arguments;
    EXPECT_TRUE(ran.output.starts_with("symccl-info: ")) << ran.output;
    EXPECT_TRUE(has(ran.output, "--help")) << ran.output;
    EXPECT_EQ(std::count(ran.output.begin(), ran.output.end(), '\n'), 1) << ran.output;
  }
}

}  // namespace
}  // namespace symccl
