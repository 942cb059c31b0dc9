#include "symccl_bench/report.hpp"

#include <fstream>

namespace symccl::bench {

namespace {

double perNanosecond(double bytes, const Row& row) {
  const double time = row.libraries.front().timeUs.median * 1000;
  return time > 0 ? bytes / time : 0;
}

const char* reductionOf(const Row& row) { return traitsOf(row.task.op).reduces ? nameOf(row.task.reduction) : "none"; }
int rootOf(const Row& row) { return traitsOf(row.task.op).rooted ? row.task.root : -1; }

/// nccl-tests' columns and closing lines, so that its parsers can read them.
class NcclReporter : public Reporter {
 public:
  explicit NcclReporter(std::FILE* out) : out_(out) {}
  void begin(const Run& run) override {
    std::fprintf(out_, "# ranks %d on one host; times are medians of the slowest rank\n#\n", run.ranks);
    std::fprintf(out_, "# %58s %33s\n", "out-of-place", "in-place");
    std::fprintf(out_, "# %10s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root");
    for (int i = 0; i < 2; ++i) std::fprintf(out_, "  %7s  %6s  %6s  %6s", "time", "algbw", "busbw", "#wrong");
    std::fprintf(out_, "\n# %10s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "");
    for (int i = 0; i < 2; ++i) std::fprintf(out_, "  %7s  %6s  %6s  %6s", "(us)", "(GB/s)", "(GB/s)", "");
    std::fprintf(out_, "\n");
  }
  void row(const Row& row, const Row* inPlace) override {
    std::fprintf(out_, "%12zu  %12zu  %8s  %6s  %6d", row.task.bytes(), row.task.count, nameOf(row.task.type),
                 reductionOf(row), rootOf(row));
    half(&row);
    half(inPlace);
    std::fprintf(out_, "\n");
    std::fflush(out_);
  }
  void end() override {
    std::fprintf(out_, "# Out of bounds values : %llu %s\n", static_cast<unsigned long long>(wrong_),
                 wrong_ == 0 ? "OK" : "FAILED");
    std::fprintf(out_, "# Avg bus bandwidth    : %g\n#\n", halves_ > 0 ? busSum_ / halves_ : 0);
  }

 private:
  void half(const Row* row) {
    if (row == nullptr) {
      std::fprintf(out_, "  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
      return;
    }
    const Measured& own = row->libraries.front();
    std::fprintf(out_, "  %7.2f  %6.2f  %6.2f  %6llu", own.timeUs.median, algBandwidth(*row), busBandwidth(*row),
                 static_cast<unsigned long long>(own.wrong));
    wrong_ += own.wrong;
    busSum_ += busBandwidth(*row);
    ++halves_;
  }
  std::FILE* out_;
  std::uint64_t wrong_ = 0;
  double busSum_ = 0;
  int halves_ = 0;
};

/// hccl_test's lines; the time is the median.
class HcclReporter : public Reporter {
 public:
  explicit HcclReporter(std::FILE* out) : out_(out) {}
  void begin(const Run& run) override {
    const Options& options = *run.options;
    std::fprintf(out_, "the minbytes is %zu, maxbytes is %zu, iters is %d, warmup_iters is %d\n", options.sizes.front(),
                 options.sizes.back(), options.iterations, options.warmup);
    std::fprintf(out_, "data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n");
  }
  void row(const Row& row, const Row*) override {
    const Measured& own = row.libraries.front();
    std::fprintf(out_, "%zu | %.2f | %.5f | %s\n", row.task.bytes(), own.timeUs.median, algBandwidth(row),
                 own.wrong == 0 ? "success" : "failed");
    std::fflush(out_);
  }

 private:
  std::FILE* out_;
};

/// One line per row and library.
class CsvReporter : public Reporter {
 public:
  explicit CsvReporter(std::FILE* out) : out_(out) {}
  void begin(const Run& run) override {
    ranks_ = run.ranks;
    std::fprintf(out_,
                 "operation,library,ranks,in_place,size,count,type,redop,root,median_us,p10_us,p90_us,p99_us,ratio,"
                 "ratio_p10,ratio_p90,wrong,path,algorithm,wall_us,handoff_ns,regime_changed,issue_us,exposed_us\n");
  }
  void row(const Row& row, const Row*) override {
    for (const Measured& library : row.libraries) {
      if (!library.absent.empty()) continue;
      std::fprintf(
          out_, "%s,%s,%d,%d,%zu,%zu,%s,%s,%d,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,%llu,%s,%s,%.3f,%.1f,%d,%s,%s\n",
          traitsOf(row.task.op).name, library.name.c_str(), ranks_, row.task.inPlace, row.task.bytes(), row.task.count,
          nameOf(row.task.type), reductionOf(row), rootOf(row), library.timeUs.median, library.timeUs.p10,
          library.timeUs.p90, library.p99Us, library.ratio.median, library.ratio.p10, library.ratio.p90,
          static_cast<unsigned long long>(library.wrong), library.path.c_str(), library.algorithm.c_str(), wallUs(row),
          row.before.handOffNs, row.regimeChanged, more(library, "issue").c_str(), more(library, "exposed").c_str());
    }
    std::fflush(out_);
  }

 private:
  static std::string more(const Measured& library, const char* name) {
    for (const auto& [series, times] : library.moreUs) {
      char text[32];
      std::snprintf(text, sizeof text, "%.3f", times.median);
      if (series == name) return text;
    }
    return {};
  }
  std::FILE* out_;
  int ranks_ = 0;
};

}  // namespace

double algBandwidth(const Row& row) { return perNanosecond(static_cast<double>(row.task.bytes()), row); }
double busBandwidth(const Row& row) { return algBandwidth(row) * row.task.busFactor(); }
double memBandwidth(const Row& row) { return perNanosecond(row.task.leastTraffic(), row); }

double wallUs(const Row& row) { return (row.before.wallUs + row.after.wallUs) / 2; }

double wallShare(const Row& row) {
  const double wallTraffic = 2 * static_cast<double>(row.task.bytes()) * row.task.ranks;
  return wallUs(row) > 0 ? memBandwidth(row) / (wallTraffic / (wallUs(row) * 1000)) : 0;
}

double walls(const Row& row) { return wallUs(row) > 0 ? row.libraries.front().timeUs.median / wallUs(row) : 0; }

void describeRun(std::FILE* out, const Run& run) {
  const Options& options = *run.options;
  std::fprintf(out, "# %d ranks%s, %s; %s%s buffers%s; %d iterations%s; %s\n", run.ranks,
               options.bound ? ", each on a CPU of its own" : "", processorName().c_str(),
               options.async   ? "torch.distributed, asynchronous, "
               : options.torch ? "torch.distributed, "
                               : "",
               options.registration > 0 ? "registered" : "private",
               options.reuseBuffers ? " REUSED between iterations (flattering)" : " written before and read after each",
               options.iterations, options.check ? ", data checked" : ", data NOT checked",
               "times are those of the slowest rank");
}

std::string processorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::unique_ptr<Reporter> makeReporter(const std::string& format, std::FILE* out) {
  if (format == "nccl") return std::make_unique<NcclReporter>(out);
  if (format == "hccl") return std::make_unique<HcclReporter>(out);
  if (format == "csv") return std::make_unique<CsvReporter>(out);
  if (format == "json") return makeJsonReporter(out);
  if (format == "svg") return makePlotReporter(out);
  if (format == "sweep") return makeSweepReporter(out);
  return makeTableReporter(out);
}

}  // namespace symccl::bench
