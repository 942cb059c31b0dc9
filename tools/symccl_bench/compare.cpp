#include "symccl_bench/compare.hpp"

#include <cstdio>
#include <map>
#include <sstream>

#include "symccl_bench/failure.hpp"
#include "symccl_bench/json.hpp"
#include "symccl_bench/options.hpp"

namespace symccl::bench {

namespace {

constexpr double kNoise = 1.1;

struct Times {
  double median, p10, p90;
};
using Rows = std::map<std::string, Times>;  // by what was measured

void addDocument(const Json& document, Rows& rows) {
  for (const Json& row : document["rows"].items) {
    std::ostringstream what;
    what << document["interface"].text << ' ' << document["ranks"].number << " ranks "
         << (document["registered"].isTrue ? "registered " : "private ")
         << (document["reuse_buffers"].isTrue ? "reused " : "") << row["operation"].text
         << (row["in_place"].isTrue ? " in place " : " ") << row["type"].text << ' ' << row["redop"].text << " root "
         << row["root"].number << ' ' << std::fixed << static_cast<long long>(row["size"].number) << " B";
    if (row["median_us"].number > 0) {
      rows[what.str()] = {row["median_us"].number, row["p10_us"].number, row["p90_us"].number};
    }
  }
}

Rows rowsOf(const std::string& name) {
  const Json whole = readJson(name);
  Rows rows;
  addDocument(whole, rows);
  for (const auto& [run, results] : whole["runs"].members) addDocument(results["document"], rows);
  if (rows.empty()) throw Failure(name + " holds no rows of symccl-bench");
  return rows;
}

}  // namespace

int compare(const std::string& before, const std::string& after) {
  const Rows old = rowsOf(before), recent = rowsOf(after);
  int both = 0, slower = 0, faster = 0;
  for (const auto& [what, now] : recent) {
    const auto found = old.find(what);
    if (found == old.end()) continue;
    ++both;
    const Times& then = found->second;
    const bool isSlower = now.p10 > then.p90 && now.median > then.median * kNoise;
    const bool isFaster = now.p90 < then.p10 && now.median * kNoise < then.median;
    slower += isSlower;
    faster += isFaster;
    if (isSlower || isFaster) {
      std::printf("%s %.2f -> %.2f us (x%.2f)  %s\n", isSlower ? "SLOWER" : "faster", then.median, now.median,
                  now.median / then.median, what.c_str());
    }
  }
  if (both == 0) throw Failure(before + " and " + after + " have no row in common");
  std::printf("%d rows in both, %d slower, %d faster\n", both, slower, faster);
  return slower > 0 ? kWrongData : 0;
}

}  // namespace symccl::bench
