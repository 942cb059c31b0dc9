// The table of --sweep-algorithms: one line for each algorithm of a row.
#include "collectives/probe.hpp"
#include "symccl_bench/report.hpp"

namespace symccl::bench {

namespace {

class SweepReporter : public Reporter {
 public:
  explicit SweepReporter(std::FILE* out) : out_(out) {}

  void begin(const Run& run) override {
    describeRun(out_, run);
    const CostModel& costs = measuredCosts();
    std::fprintf(
        out_,
        "# predicted: by the cost model, whose costs rank 0 %s; x chosen: time over the chosen algorithm's, "
        "turn by turn\n# chosen: what the library takes by itself; best: the fastest of those that it may take "
        "by itself;\n# asked: runs only where it is asked for; line: hand-off before>after, '!': it changed "
        "twofold\n",
        costs.measured ? "has measured" : "could not measure, so assumed ones");
  }

  void row(const Row& row, const Row*) override {
    if (first_ || last_ != row.task.op) head(row);
    first_ = false;
    last_ = row.task.op;
    verdict_.add(row);
    for (const Measured& each : row.libraries) {
      if (each.absent.empty()) line(row, each);
    }
    std::fflush(out_);
  }

  void end() override { std::fprintf(out_, "\n%s\n", verdict_.text().c_str()); }

 private:
  void head(const Row& row) {
    std::fprintf(out_, "\n%s%s\n%11s %9s %8s %-22s %-10s %12s %12s %12s  %-18s %9s  %s\n", traitsOf(row.task.op).name,
                 row.task.inPlace ? " in place" : "", "size", "type", "redop", "algorithm", "path", "predicted us",
                 "measured us", "/predicted", "x chosen [p10-p90]", "line ns", "");
  }

  void line(const Row& row, const Measured& each) {
    const Task& task = row.task;
    char ratio[64], hands[32];
    std::snprintf(ratio, sizeof ratio, "%.2f [%.2f-%.2f]", each.ratio.median, each.ratio.p10, each.ratio.p90);
    std::snprintf(hands, sizeof hands, "%.0f>%.0f%s", row.before.handOffNs, row.after.handOffNs,
                  row.regimeChanged ? "!" : "");
    const bool chosen = &each == &row.libraries.front();
    std::string notes;
    const auto note = [&](bool holds, const char* word) {
      if (holds) notes += std::string(notes.empty() ? "" : ", ") + word;
    };
    note(chosen, "chosen");
    note(each.swept.best, "best");
    note(!each.swept.bySelf && !chosen, "asked");
    note(each.wrong > 0, "WRONG");
    std::fprintf(out_, "%11zu %9s %8s %-22s %-10s %12.2f %12.2f %12.2f  %-18s %9s  %s\n", task.bytes(),
                 nameOf(task.type), traitsOf(task.op).reduces ? nameOf(task.reduction) : "-", each.algorithm.c_str(),
                 each.path.c_str(), each.swept.predictedUs, each.timeUs.median, overPrediction(each), ratio,
                 chosen ? hands : "", notes.c_str());
  }

  std::FILE* out_;
  SweepVerdict verdict_;
  bool first_ = true;
  Op last_ = Op::barrier;
};

}  // namespace

std::unique_ptr<Reporter> makeSweepReporter(std::FILE* out) { return std::make_unique<SweepReporter>(out); }

}  // namespace symccl::bench
