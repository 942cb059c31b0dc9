#include "base/environment.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace symccl {
namespace {

using Settings = std::map<std::string, std::string>;

Result<Environment> parse(const Settings& settings) {
  return parseEnvironment([&](const char* name) {
    const auto at = settings.find(name);
    return at == settings.end() ? nullptr : at->second.c_str();
  });
}

constexpr std::size_t kM = std::size_t{1} << 20, kG = std::size_t{1} << 30;

TEST(Environment, Defaults) {
  const auto parsed = parse({});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->debug, "none");
  EXPECT_EQ(parsed->debugSubsystems, "");
  EXPECT_EQ(parsed->debugFile, "");
  EXPECT_EQ(parsed->heapBytes, 16 * kG);
  EXPECT_EQ(parsed->hostId, "");
  EXPECT_EQ(parsed->isa, "auto");
  EXPECT_TRUE(parsed->membarrier);
  EXPECT_EQ(parsed->path, "auto");
  EXPECT_EQ(parsed->root, "");
  EXPECT_EQ(parsed->token, "");
  EXPECT_EQ(parsed->testStaging, "normal");
  EXPECT_EQ(parsed->stores, "auto");
  EXPECT_EQ(parsed->threads, 0);
  EXPECT_EQ(parsed->algorithm, "");
  EXPECT_FALSE(parsed->ringThreshold);
  EXPECT_FALSE(parsed->treeThreshold);
}

TEST(Environment, EmptyIsNotSet) {
  Settings settings;
  for (const Variable& variable : variables()) settings[variable.name] = "";
  const auto parsed = parse(settings);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->heapBytes, 16 * kG);
  EXPECT_TRUE(parsed->membarrier);
}

TEST(Environment, ValuesAreTaken) {
  const auto parsed = parse({{"SYMCCL_DEBUG", "Info"},
                             {"SYMCCL_DEBUG_SUBSYS", "comm,^pool"},
                             {"SYMCCL_DEBUG_FILE", "/x/%h.%p.100%%"},
                             {"SYMCCL_HEAP_SIZE", "3g"},
                             {"SYMCCL_HOST_ID", "a-b.c_9"},
                             {"SYMCCL_HUGE_PAGES", "0"},
                             {"SYMCCL_ISA", "AVX2"},
                             {"SYMCCL_MEMBARRIER", "0"},
                             {"SYMCCL_NPU_DEVICES", "12"},
                             {"SYMCCL_PATH", "staged"},
                             {"SYMCCL_ROOT", "[::1]:65535"},
                             {"SYMCCL_TOKEN", "Sesame: open!"},
                             {"SYMCCL_TEST_STAGING", "inaccessible"},
                             {"SYMCCL_STORES", "streaming"},
                             {"SYMCCL_THREADS", "6"},
                             {"HCCL_ALGO", "allreduce=level0:ring/allgather=level0:H-D_R"},
                             {"HCCL_RING_THRESHOLD", "8M"},
                             {"HCCL_TREE_THRESHOLD", "65537"}});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->debug, "info");
  EXPECT_EQ(parsed->debugSubsystems, "COMM,^POOL");
  EXPECT_EQ(parsed->debugFile, "/x/%h.%p.100%%");
  EXPECT_EQ(parsed->heapBytes, 3 * kG);
  EXPECT_EQ(parsed->hostId, "a-b.c_9");
  EXPECT_FALSE(parsed->hugePages);
  EXPECT_EQ(parsed->isa, "avx2");
  EXPECT_FALSE(parsed->membarrier);
  EXPECT_EQ(parsed->npuDevices, 12);
  EXPECT_EQ(parsed->path, "staged");
  EXPECT_EQ(parsed->root, "[::1]:65535");
  EXPECT_EQ(parsed->token, "Sesame: open!");
  EXPECT_EQ(parsed->testStaging, "inaccessible");
  EXPECT_EQ(parsed->stores, "streaming");
  EXPECT_EQ(parsed->threads, 6);
  EXPECT_EQ(parsed->algorithm, "allreduce=level0:ring/allgather=level0:H-D_R");
  EXPECT_EQ(parsed->ringThreshold, 8 * kM);
  EXPECT_EQ(parsed->treeThreshold, 65537u);
}

TEST(Environment, Roots) {
  for (const std::string& root : {std::string("host:1"), std::string("10.0.0.1:29500"), std::string("[fe80::1]:80"),
                                  std::string("unix:@job 7"), "unix:@" + std::string(107, 'n')}) {
    const auto parsed = parse({{"SYMCCL_ROOT", root}});
    ASSERT_TRUE(parsed) << root;
    EXPECT_EQ(parsed->root, root);
  }
}

TEST(Environment, HeapSizes) {
  const std::map<std::string, std::size_t> accepted = {
      {"64M", 64 * kM},    {"65536K", 64 * kM},         {"67108864", 64 * kM}, {"67108865", 66 * kM},
      {"1T", 1024 * kG},   {"100m", 100 * kM},          {"101M", 102 * kM},    {"1024G", 1024 * kG},
      {"00064M", 64 * kM}, {"1099511627776", 1024 * kG}};
  for (const auto& [text, bytes] : accepted) {
    const auto parsed = parse({{"SYMCCL_HEAP_SIZE", text}});
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(parsed->heapBytes, bytes) << text;
  }
  for (const char* text : {"63M",
                           "67108863",
                           "0",
                           "1025G",
                           "1099511627777",
                           "2T",
                           "-64M",
                           "+64M",
                           "64MB",
                           "64 M",
                           " 64M",
                           "64M ",
                           "1.5G",
                           "G",
                           "0x4000000",
                           "64Q",
                           "sixteen",
                           "99999999999999999999",
                           "18446744073709551615T",
                           "16777216T",
                           "17592186044480M"}) {
    EXPECT_FALSE(parse({{"SYMCCL_HEAP_SIZE", text}})) << text;
  }
}

TEST(Environment, MalformedNamesVariableValueAndAccepted) {
  const auto parsed = parse({{"SYMCCL_HEAP_SIZE", "12Q"}});
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code(), Code::invalid);
  EXPECT_EQ(parsed.error().message(),
            "the variable SYMCCL_HEAP_SIZE is '12Q'; accepted: a number of bytes, or one with K, M, G or T behind it, "
            "from 64M to 1T");
}

TEST(Environment, EveryVariableRefusesSomething) {
  const std::map<std::string, std::vector<std::string>> refused = {
      {"SYMCCL_DEBUG", {"loud", "2", "info,", " info"}},
      {"SYMCCL_DEBUG_SUBSYS",
       {",", "COMM,", ",COMM", "COMM,,POOL", "^", "COMM^", "^^COMM", "COMM POOL", "COMM;POOL", "^,COMM"}},
      {"SYMCCL_DEBUG_FILE", {"%", "/x/%d", "/x/%h%"}},
      {"SYMCCL_HEAP_SIZE", {"12Q"}},
      {"SYMCCL_HOST_ID", {"a b", "a/b", "\xc3\xa9", std::string(65, 'x')}},
      {"SYMCCL_HUGE_PAGES", {"yes", "2M", "-1"}},
      {"SYMCCL_ISA", {"sse", "avx", "avx512 "}},
      {"SYMCCL_MEMBARRIER", {"yes", "2", "01", "true"}},
      {"SYMCCL_NPU_DEVICES", {"0", "65", "-1", "8x", "all", "99999999999"}},
      {"SYMCCL_PATH", {"zero-copy", "fast"}},
      {"SYMCCL_ROOT",
       {"host", "host:", ":80", "host:0", "host:65536", "host:80x", "host: 80", "::1:80", "host:-1", "unix:@",
        "unix:/x", "unix:@" + std::string(108, 'n')}},
      {"SYMCCL_TOKEN", {std::string(257, 't')}},
      {"SYMCCL_TEST_STAGING", {"odd"}},
      {"SYMCCL_STORES", {"fast", "cached"}},
      {"SYMCCL_THREADS", {"-1", "65", "two", "2x"}},
      {"HCCL_ALGO", {"level0:ring ", "ring,tree", std::string(1601, 'x')}},
      {"HCCL_RING_THRESHOLD", {"large", "-1", "1.5M"}},
      {"HCCL_TREE_THRESHOLD", {"small", "4 K", "8MB"}}};
  for (const Variable& variable : variables()) {
    const auto at = refused.find(variable.name);
    ASSERT_NE(at, refused.end()) << variable.name;
    for (const std::string& value : at->second) {
      const auto parsed = parse({{variable.name, value}});
      ASSERT_FALSE(parsed) << variable.name << " took '" << value << "'";
      EXPECT_NE(parsed.error().message().find(variable.name), std::string::npos);
      EXPECT_NE(parsed.error().message().find(variable.accepted), std::string::npos);
      EXPECT_EQ(parsed.error().message().find(value) == std::string::npos, variable.secret) << variable.name;
    }
  }
}

TEST(Environment, TableIsComplete) {
  std::set<std::string> names;
  for (const Variable& variable : variables()) {
    EXPECT_TRUE(std::string(variable.name).starts_with("SYMCCL_") || std::string(variable.name).starts_with("HCCL_"));
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name << " is there twice";
    EXPECT_TRUE(std::string(variable.meaning).ends_with(".")) << variable.name;
    EXPECT_NE(std::string(variable.accepted), "") << variable.name;
    EXPECT_TRUE(parse({{variable.name, variable.standard}})) << variable.name;
  }
}

TEST(Environment, UnknownNamesGetTheNearest) {
  const char* names[] = {
      "PATH=/bin", "SYMCCL_HEAPSIZE=1G", "SYMCCL_HEAP_SIZE=1G", "SYMCCL_DEBUG=info", "SYMCCL_DEBUGFILE=x",
      "SYMCCL=1",  "XSYMCCL_DEBUG=1",    "SYMCCL_TOKN",         "symccl_debug=1",    nullptr};
  const auto found = unknownVariables(names);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0], "the variable SYMCCL_HEAPSIZE is unknown and has no effect; the nearest one is SYMCCL_HEAP_SIZE");
  EXPECT_EQ(found[1],
            "the variable SYMCCL_DEBUGFILE is unknown and has no effect; the nearest one is SYMCCL_DEBUG_FILE");
  EXPECT_EQ(found[2], "the variable SYMCCL_TOKN is unknown and has no effect; the nearest one is SYMCCL_TOKEN");
  EXPECT_TRUE(unknownVariables(nullptr).empty());
}

TEST(Environment, UnknownNeverShowsValues) {
  const char* names[] = {"SYMCCL_TOKN=sesame", nullptr};
  ASSERT_EQ(unknownVariables(names).size(), 1u);
  EXPECT_EQ(unknownVariables(names)[0].find("sesame"), std::string::npos);
}

}  // namespace
}  // namespace symccl
