// The table for people.
#include <map>

#include "symccl_bench/report.hpp"

namespace symccl::bench {

namespace {

// Below this the wall is the cost of starting a copy, not of memory.
constexpr std::size_t kLeastForWall = 64 << 10;

class TableReporter : public Reporter {
 public:
  explicit TableReporter(std::FILE* out) : out_(out) {}

  void begin(const Run& run) override {
    describeRun(out_, run);
    std::fprintf(
        out_,
        "# membw: the least bytes that all ranks must move, per time; %%wall: of the rate of streaming copies by"
        " all ranks at once;\n# xwall: time over that of such copies of size bytes; line: hand-off before>after;"
        " '!': it changed twofold\n");
  }

  void row(const Row& row, const Row*) override {
    if (first_) {
      for (const Measured& library : row.libraries) {
        if (library.absent.empty() && !library.version.empty()) {
          std::fprintf(out_, "# %s: %s\n", library.name.c_str(), library.version.c_str());
        }
      }
    }
    if (first_ || last_ != row.task.op) head(row);
    first_ = false;
    last_ = row.task.op;
    own(row);
    for (std::size_t i = 1; i < row.libraries.size(); ++i) peer(row.libraries[i]);
    std::fprintf(out_, "\n");
    for (const Measured& library : row.libraries) more(library);
    for (const Measured& library : row.libraries) reason(library, row.task.op);
    std::fflush(out_);
  }

 private:
  // What torch with --async and ddp measure beside the time.
  void more(const Measured& library) {
    if (!library.absent.empty() || library.moreUs.empty()) return;
    std::fprintf(out_, "#   %s:", library.name.c_str());
    for (const auto& [name, times] : library.moreUs) {
      std::fprintf(out_, " %s %.2f us [%.2f-%.2f]", name.c_str(), times.median, times.p10, times.p90);
    }
    std::fprintf(out_, "\n");
  }

  // Why a library has no times: once for each reason and operation.
  void reason(const Measured& library, Op op) {
    std::string& told = told_[library.name];
    const std::string why = library.absent.empty() ? "" : std::string(traitsOf(op).name) + ": " + library.absent;
    if (told != why && !why.empty()) std::fprintf(out_, "#   %s, %s\n", library.name.c_str(), why.c_str());
    told = why;
  }

  void head(const Row& row) {
    std::fprintf(out_, "\n%s%s\n", traitsOf(row.task.op).name, row.task.inPlace ? " in place" : "");
    std::fprintf(out_, "%11s %11s %9s %8s %4s %10s %10s %10s %7s %7s %7s %6s %6s %6s %-10s %-16s %9s", "size", "count",
                 "type", "redop", "root", "median us", "p10", "p99", "algbw", "busbw", "membw", "%wall", "xwall",
                 "#wrong", "path", "algorithm", "line ns");
    for (std::size_t i = 1; i < row.libraries.size(); ++i) {
      std::fprintf(out_, "  %28s", (row.libraries[i].name + " us   x [p10-p90]").c_str());
    }
    std::fprintf(out_, "\n");
  }

  void own(const Row& row) {
    const Task& task = row.task;
    const Measured& measured = row.libraries.front();
    char root[16] = "-";
    if (traitsOf(task.op).rooted) std::snprintf(root, sizeof root, "%d", task.root);
    char share[16] = "-", over[16] = "-";
    if (task.bytes() >= kLeastForWall) {
      std::snprintf(share, sizeof share, "%.0f", 100 * wallShare(row));
      std::snprintf(over, sizeof over, "%.2f", walls(row));
    }
    char line[32];
    std::snprintf(line, sizeof line, "%.0f>%.0f%s", row.before.handOffNs, row.after.handOffNs,
                  row.regimeChanged ? "!" : "");
    std::fprintf(out_, "%11zu %11zu %9s %8s %4s %10.2f %10.2f %10.2f %7.2f %7.2f %7.2f %6s %6s %6llu %-10s %-16s %9s",
                 task.bytes(), task.count, nameOf(task.type), traitsOf(task.op).reduces ? nameOf(task.reduction) : "-",
                 root, measured.timeUs.median, measured.timeUs.p10, measured.p99Us, algBandwidth(row),
                 busBandwidth(row), memBandwidth(row), share, over, static_cast<unsigned long long>(measured.wrong),
                 measured.path.empty() ? "-" : measured.path.c_str(),
                 measured.algorithm.empty() ? "-" : measured.algorithm.c_str(), line);
  }

  void peer(const Measured& library) {
    if (!library.absent.empty()) {
      std::fprintf(out_, "  %28s", "absent");
      return;
    }
    char cell[96];
    std::snprintf(cell, sizeof cell, "%.1f %6.2f [%.2f-%.2f]%s", library.timeUs.median, library.ratio.median,
                  library.ratio.p10, library.ratio.p90, library.wrong > 0 ? " WRONG" : "");
    std::fprintf(out_, "  %28s", cell);
  }

  std::FILE* out_;
  std::map<std::string, std::string> told_;  ///< by library
  bool first_ = true;
  Op last_ = Op::barrier;
};

}  // namespace

std::unique_ptr<Reporter> makeTableReporter(std::FILE* out) { return std::make_unique<TableReporter>(out); }

}  // namespace symccl::bench
