// symccl-bench as a user calls it: arguments, formats, launchers' variables, and that wrong data shows.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace symccl {
namespace {

struct Ran {
  std::string output;  ///< standard output and error
  int code;
};

Ran shell(const std::string& command) {
  FILE* pipe = ::popen(("exec 2>&1; " + command).c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  std::string output;
  char chunk[4096];
  while (const std::size_t got = std::fread(chunk, 1, sizeof chunk, pipe)) output.append(chunk, got);
  const int status = ::pclose(pipe);
  return {output, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

Ran bench(const std::string& arguments) { return shell("timeout 50 " SYMCCL_BENCH " " + arguments); }

// `program` is Python that finds the parsed document in `d`, and fails by an assertion.
Ran judgeJson(const std::string& arguments, const std::string& program) {
  return shell(
      "rows=$(timeout 50 " SYMCCL_BENCH " " + arguments +
      " --format json) || exit 9; printf %s \"$rows\" | python3 -c 'import json, sys; d = json.load(sys.stdin); " +
      program + "'");
}

bool has(const std::string& all, const std::string& part) { return all.find(part) != std::string::npos; }

constexpr const char* kShort = "-n 3 -w 1 ";

TEST(SymcclBench, HelpEndsWithThreeExamples) {
  const Ran help = bench("--help");
  EXPECT_EQ(help.code, 0);
  const std::size_t examples = help.output.find("Examples:");
  ASSERT_NE(examples, std::string::npos);
  int lines = 0;
  for (std::size_t at = help.output.find("symccl-bench ", examples); at != std::string::npos;
       at = help.output.find("symccl-bench ", at + 1)) {
    ++lines;
  }
  EXPECT_EQ(lines, 3);
  EXPECT_TRUE(has(bench("--version").output, "revision"));
}

struct Refused {
  const char* arguments;
  const char* says;
};
class SymcclBenchRefuses : public testing::TestWithParam<Refused> {};

TEST_P(SymcclBenchRefuses, WithASentence) {
  const Ran ran = bench(GetParam().arguments);
  EXPECT_EQ(ran.code, 2) << ran.output;
  EXPECT_TRUE(has(ran.output, GetParam().says)) << ran.output;
}

INSTANTIATE_TEST_SUITE_P(
    Usage, SymcclBenchRefuses,
    testing::Values(Refused{"all_reduec", "accepted: all all_reduce reduce_scatter"},
                    Refused{"-b 8X", "-b 8X is not a size"}, Refused{"-b 0", "-b must be at least 1 byte"},
                    Refused{"-b 1M -e 1K", "-b 1M is larger than -e 1K"}, Refused{"-f 1", "-f must be greater than 1"},
                    Refused{"-i 4 -f 2", "exclude each other"}, Refused{"-d float31", "-d float31 is not known"},
                    Refused{"-o add", "-o add is not known"}, Refused{"-r x", "-r x is not a rank"},
                    Refused{"broadcast -p 2 -r 2", "there are only 2 ranks"},
                    Refused{"-d float32 -o bitAnd", "leaves nothing to measure"},
                    Refused{"broadcast --in-place", "broadcast has no --in-place form"},
                    Refused{"--peers nccl", "accepted: gloo,openmpi,mpich,oneccl,shm-staged"}, Refused{"-p 0", "ranks"},
                    Refused{"--peers private -R 0", "not with -R 0"},
                    Refused{"--peers out-of-place", "compared with: not without it"},
                    Refused{"--peers torch-floor", "compared with: not without it"},
                    Refused{"--peers hccl", "the peer hccl is what 'torch' is compared with"},
                    Refused{"--async", "--async is for 'symccl-bench torch'"},
                    Refused{"--sweep-algorithms torch", "not with torch or ddp"},
                    Refused{"--sweep-algorithms --peers gloo", "not with --peers"},
                    Refused{"--sweep-algorithms --format csv", "no other --format, no --csv, no --plot"},
                    Refused{"--sweep-algorithms --plot x.svg", "no other --format, no --csv, no --plot"},
                    Refused{"--sweep-algorithms all_reduce sendrecv", "sendrecv has no algorithms"},
                    Refused{"--sweep-algorithms -p 1", "--sweep-algorithms needs 2 ranks"},
                    Refused{"ddp perceptron", "accepted: all transformer convolution"},
                    Refused{"ddp_transformer", "the operation ddp_transformer is not known"},
                    Refused{"plot rows.json", "plot takes a file of results"}, Refused{"--format xml", "format"},
                    Refused{"--nonsense", "nonsense"}));

TEST(SymcclBench, RefusesAnotherNumberOfRanksThanWereStarted) {
  const Ran ran = shell("RANK=0 WORLD_SIZE=2 timeout 50 " SYMCCL_BENCH " --ranks 3");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.output, "has started 2")) << ran.output;
}

TEST(SymcclBench, EveryOperationIsRight) {
  const Ran ran = judgeJson(
      std::string(kShort) + "all -p 3 -b 1 -e 100000 -f 316 -r all",
      "assert len(d[\"rows\"]) == 3 * (8 + 6 * 3) + 2; "
      "assert {r[\"operation\"] for r in d[\"rows\"]} >= {\"all_reduce\", \"all_to_all_v\", \"communicator\"}; "
      "assert {r[\"root\"] for r in d[\"rows\"]} == {-1, 0, 1, 2}; "
      "assert all(r[\"wrong\"] == 0 and r[\"median_us\"] > 0 for r in d[\"rows\"])");
  EXPECT_EQ(ran.code, 0) << ran.output;
}

TEST(SymcclBench, EveryTypeAndReductionIsRight) {
  const Ran ran =
      judgeJson(std::string(kShort) + "all_reduce reduce_scatter reduce_scatter_v -p 3 -d all -o all -b 33333 -e 33333",
                "assert len(d[\"rows\"]) == 3 * (6 * 8 + 4 * 5); "
                "assert all(r[\"wrong\"] == 0 for r in d[\"rows\"])");
  EXPECT_EQ(ran.code, 0) << ran.output;
}

TEST(SymcclBench, InPlaceAndReusedAndPrivateBuffersAreRight) {
  for (const char* how : {"--in-place", "--reuse-buffers", "--in-place --reuse-buffers", "-R 0"}) {
    const Ran ran =
        bench(std::string(kShort) + "all_reduce all_gather reduce_scatter all_to_all -b 70000 -e 70000 " + how);
    EXPECT_EQ(ran.code, 0) << how << "\n" << ran.output;
  }
}

TEST(SymcclBench, ARowHasItsFields) {
  const Ran ran = judgeJson(
      std::string(kShort) + "all_reduce -b 1M -e 1M --peers shm-staged --rounds 3",
      "assert d[\"ranks\"] == 2 and d[\"checked\"] and d[\"registered\"] and d[\"launcher\"] == \"symccl-bench\"; "
      "r, = d[\"rows\"]; assert r[\"size\"] == 1 << 20 and r[\"count\"] == 1 << 18 and r[\"redop\"] == \"sum\"; "
      "assert r[\"p10_us\"] <= r[\"median_us\"] <= r[\"p90_us\"] <= r[\"p99_us\"]; "
      "assert abs(r[\"algbw_gbs\"] * r[\"median_us\"] * 1000 / r[\"size\"] - 1) < 0.01; "
      "assert abs(r[\"busbw_gbs\"] / r[\"algbw_gbs\"] - 1) < 0.01; "
      "assert abs(r[\"membw_gbs\"] / r[\"algbw_gbs\"] - 4) < 0.01; "
      "assert r[\"path\"] == \"zero-copy\" and r[\"algorithm\"]; "
      "assert r[\"before\"][\"handoff_ns\"] > 0 and r[\"after\"][\"wall_us\"] > 0 and r[\"time_in_walls\"] > 0; "
      "s = r[\"peers\"][\"shm-staged\"]; assert s[\"wrong\"] == 0 and s[\"median_us\"] > 0; "
      "assert s[\"ratio_p10\"] <= s[\"ratio\"] <= s[\"ratio_p90\"]");
  EXPECT_EQ(ran.code, 0) << ran.output;
}

TEST(SymcclBench, OtherFormatsHaveTheColumnsOfTheirTools) {
  const std::string row = std::string(kShort) + "all_reduce -b 4K -e 4K --format ";
  const Ran nccl = bench(row + "nccl");
  EXPECT_EQ(nccl.code, 0);
  EXPECT_TRUE(has(nccl.output, "# Out of bounds values : 0 OK") && has(nccl.output, "# Avg bus bandwidth    : "))
      << nccl.output;
  long size = 0, count = 0, root = 0, wrong = -1, wrongInPlace = -1;
  char type[16] = "", redop[16] = "";
  double f[6] = {};
  const std::size_t start = nccl.output.find("\n        4096");
  ASSERT_NE(start, std::string::npos) << nccl.output;
  EXPECT_EQ(std::sscanf(nccl.output.c_str() + start, "%ld %ld %15s %15s %ld %lf %lf %lf %ld %lf %lf %lf %ld", &size,
                        &count, type, redop, &root, &f[0], &f[1], &f[2], &wrong, &f[3], &f[4], &f[5], &wrongInPlace),
            13);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(wrongInPlace, 0);
  const Ran hccl = bench(row + "hccl");
  EXPECT_TRUE(has(hccl.output, "data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:"));
  EXPECT_TRUE(has(hccl.output, "\n4096 | ") && has(hccl.output, " | success\n")) << hccl.output;
  EXPECT_TRUE(has(bench(row + "csv").output, "\nall_reduce,symccl,2,0,4096,1024,float32,sum,-1,"));
}

TEST(SymcclBench, VariantsOfTheLibraryTakeTurnsWithIt) {
  const Ran ran =
      judgeJson("all_reduce --in-place -b 1M -e 1M -n 14 --rounds 7 --peers private,out-of-place",
                "r, = d[\"rows\"]; assert r[\"path\"] == \"zero-copy\"; assert set(r[\"peers\"]) == {\"private\", "
                "\"out-of-place\"}; "
                "assert all(p[\"wrong\"] == 0 and p[\"median_us\"] > 0 for p in r[\"peers\"].values()); "
                "assert all(p[\"ratio_low\"] <= p[\"ratio\"] <= p[\"ratio_high\"] for p in r[\"peers\"].values()); "
                "assert d[\"first_communicator_us\"] > 0");
  EXPECT_EQ(ran.code, 0) << ran.output;
}

TEST(SymcclBench, SweepMeasuresEveryAlgorithmThatCanRun) {
  const std::string sweep = "--sweep-algorithms -n 12 --rounds 6 -w 1 ";
  const Ran ran = judgeJson(
      sweep + "all_reduce all_to_all -b 512 -e 64K -f 128",
      "at = lambda op, size: {r[\"algorithm\"]: r for r in d[\"rows\"] if (r[\"operation\"], r[\"size\"]) == (op, "
      "size)}; "
      "forms = {\"staged reduce\", \"ring\", \"tree\", \"double tree\", \"halving-doubling\"}; "
      "assert set(at(\"all_reduce\", 512)) == forms | {\"eager one-shot\"}; "
      "assert set(at(\"all_reduce\", 65536)) == forms | {\"two-shot\", \"one-shot\"}; "
      "assert set(at(\"all_to_all\", 65536)) == {\"push\", \"pull\", \"staged move\", \"pairwise\"}; "
      "assert {r[\"algorithm\"] for r in d[\"rows\"] if r[\"by_self\"]} == "
      "{\"eager one-shot\", \"two-shot\", \"one-shot\", \"push\", \"pull\"}; "
      "assert all(r[\"wrong\"] == 0 and r[\"median_us\"] > 0 and r[\"predicted_us\"] > 0 for r in d[\"rows\"]); "
      "assert all(abs(r[\"measured_over_predicted\"] * r[\"predicted_us\"] / r[\"median_us\"] - 1) < 0.01 for r in "
      "d[\"rows\"]); "
      "assert sum(r[\"chosen\"] for r in d[\"rows\"]) == 4 and sum(r[\"best\"] for r in d[\"rows\"]) == 4; "
      "assert d[\"points\"] == 2 and d[\"chosen_near_best\"] <= 2");
  EXPECT_EQ(ran.code, 0) << ran.output;

  const Ran table = bench(sweep + "all_gather -b 64K -e 64K");
  EXPECT_EQ(table.code, 0);
  for (const char* part : {" push ", " pull ", " ring ", " asked", " chosen", "best", "of 1 points\n"})
    EXPECT_TRUE(has(table.output, part)) << part << "\n" << table.output;
  const Ran alone = bench(sweep + "broadcast -R 0 -b 64K -e 64K");
  EXPECT_EQ(alone.code, 0);
  EXPECT_TRUE(has(alone.output, "staged move") && has(alone.output, "no choice at any point")) << alone.output;
}

TEST(SymcclBench, SweepRefusesVariablesThatChooseToo) {
  const Ran ran = shell("HCCL_ALGO=ring timeout 50 " SYMCCL_BENCH " --sweep-algorithms");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(has(ran.output, "not with HCCL_ALGO")) << ran.output;
}

TEST(SymcclBench, DrawingsHaveAPanelForEachOperationAndALineForEachLibrary) {
  const std::string judge =
      "python3 -c 'import sys, xml.etree.ElementTree as tree; "
      "svg = tree.parse(sys.argv[1]).getroot(); ns = \"{http://www.w3.org/2000/svg}\"; "
      "texts = [t.text for t in svg.iter(ns + \"text\")]; "
      "assert {\"symccl\", \"private\", \"all_gather, float32\", \"all_reduce, float32 sum\", \"4K\"} <= set(texts), "
      "texts; "
      "assert len(list(svg.iter(ns + \"path\"))) == 4; assert len(list(svg.iter(ns + \"circle\"))) == 4 * 3' ";
  const std::string measure = std::string(kShort) + "all_reduce all_gather -b 1K -e 16K --peers private ";
  const Ran ran =
      shell("d=$(mktemp -d) && timeout 50 " SYMCCL_BENCH " " + measure +
            "--json $d/r.json --plot $d/a.svg >/dev/null && " SYMCCL_BENCH " plot $d/r.json $d/b.svg && " + judge +
            "$d/a.svg && " + judge + "$d/b.svg && cmp $d/a.svg $d/b.svg; code=$?; rm -r $d; exit $code");
  EXPECT_EQ(ran.code, 0) << ran.output;
  const Ran empty = shell(SYMCCL_BENCH " barrier " + std::string(kShort) + "--plot - 2>&1");
  EXPECT_EQ(empty.code, 3);
  EXPECT_TRUE(has(empty.output, "nothing to draw")) << empty.output;
}

TEST(SymcclBench, WrongDataIsCountedAndTells) {
  for (const char* rank : {"0", "1"}) {
    const Ran ran = bench(std::string(kShort) + "all_gather -b 4K -e 4K --format hccl --inject-fault " + rank);
    EXPECT_EQ(ran.code, 1) << ran.output;
    EXPECT_TRUE(has(ran.output, " | failed\n")) << ran.output;
  }
  const Ran vKind = bench(std::string(kShort) + "all_to_all_v -b 4K -e 4K --format hccl --inject-fault 1");
  EXPECT_EQ(vKind.code, 1) << vKind.output;
  const Ran unchecked = bench(std::string(kShort) + "all_gather -b 4K -e 4K -c 0 --inject-fault 0");
  EXPECT_EQ(unchecked.code, 0) << unchecked.output;
}

TEST(SymcclBench, APeerThatIsNotThereIsNamed) {
  const Ran ran = judgeJson(std::string(kShort) + "all_reduce -b 64 -e 64 --peers gloo --python /nowhere/python3",
                            "assert d[\"rows\"][0][\"peers\"][\"gloo\"][\"absent\"]");
  EXPECT_EQ(ran.code, 0) << ran.output;
}

TEST(SymcclBench, CompareTellsWhatBecameSlower) {
  const std::string folder = testing::TempDir() + "symccl-bench-compare-" + std::to_string(::getpid());
  const auto write = [&](const char* name, const char* median, const char* p10, const char* p90) {
    const std::string path = folder + name;
    std::ofstream(path) << R"({"ranks": 2, "rows": [{"operation": "all_reduce", "size": 8, "median_us": )" << median
                        << R"(, "p10_us": )" << p10 << R"(, "p90_us": )" << p90 << "}]}\n";
    return path;
  };
  const std::string old = write("-old", "1.0", "0.9", "1.2"), slow = write("-slow", "1.5", "1.3", "1.9");
  const std::string noisy = write("-noisy", "1.3", "1.1", "1.9");
  const Ran slower = bench("compare " + old + " " + slow);
  EXPECT_EQ(slower.code, 1);
  EXPECT_TRUE(has(slower.output, "SLOWER 1.00 -> 1.50 us (x1.50)") && has(slower.output, "all_reduce"))
      << slower.output;
  const Ran faster = bench("compare " + slow + " " + old);
  EXPECT_EQ(faster.code, 0);
  EXPECT_TRUE(has(faster.output, "1 rows in both, 0 slower, 1 faster")) << faster.output;
  EXPECT_TRUE(has(bench("compare " + old + " " + noisy).output, "0 slower, 0 faster"));
  EXPECT_EQ(bench("compare " + old).code, 2);
  const Ran missing = bench("compare " + old + " /nowhere.json");
  EXPECT_EQ(missing.code, 3);
  EXPECT_TRUE(has(missing.output, "cannot read /nowhere.json"));
  std::ofstream(folder + "-bad") << R"({"rows": [)";
  EXPECT_TRUE(has(bench("compare " + old + " " + folder + "-bad").output, "no JSON at byte"));
  for (const char* name : {"-old", "-slow", "-noisy", "-bad"}) std::remove((folder + name).c_str());
}

TEST(SymcclBench, TheStandingComparisonWritesItsPage) {
  const Ran ran =
      shell("d=$(mktemp -d) && timeout 100 python3 -B " SYMCCL_BENCH_SCRIPT " --quick --program " SYMCCL_BENCH
            " --results $d/r.json --page $d/p.md --machine here --only \"communicator, 2 ranks\" "
            "\"other collectives, registered against private\" \"growth, 2 ranks\" \"growth, 4 ranks\" && "
            "python3 -c 'import json, sys; assert len(json.load(open(sys.argv[1]))[\"runs\"]) == 4' $d/r.json && "
            "cat $d/p.md; code=$?; rm -r $d; exit $code");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(has(ran.output, "| all_reduce: all_reduce | 64 MiB | time in walls | <= 0.85 | not measured | | | |"))
      << ran.output;
  EXPECT_TRUE(has(ran.output, "| communicator, 2 ranks: communicator |  | time | <= 2000.00 us | ")) << ran.output;
  EXPECT_TRUE(has(ran.output, "`symccl-bench communicator -b 0 -e 0 -n 4 -w 1 --rounds 2`")) << ran.output;
  EXPECT_TRUE(has(ran.output, "    symccl-bench reduce_scatter all_gather all_to_all broadcast --peers private -b 4K"))
      << ran.output;
  EXPECT_TRUE(has(ran.output, "| all_to_all | 64 KiB | ")) << ran.output;
  EXPECT_TRUE(has(ran.output, "| size | 2 ranks | 4 ranks |")) << ran.output;
}

}  // namespace
}  // namespace symccl
