// The same for programs: one document with one object a row.
#include <unistd.h>

#include <chrono>
#include <ctime>

#include "base/version.hpp"
#include "kernels/kernels.hpp"
#include "symccl_bench/report.hpp"

namespace symccl::bench {

namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char letter : text) {
    char escaped[8];
    if (letter == '"' || letter == '\\') {
      result += {'\\', letter};
    } else if (static_cast<unsigned char>(letter) < 0x20) {
      std::snprintf(escaped, sizeof escaped, "\\u%04x", letter);
      result += escaped;
    } else {
      result += letter;
    }
  }
  return result + '"';
}

std::string now() {
  char text[32];
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// Members of one object, in the order in which they are added.
class Object {
 public:
  Object& add(const char* name, const std::string& text) { return raw(name, quoted(text)); }
  Object& add(const char* name, const char* text) { return raw(name, quoted(text)); }
  Object& add(const char* name, bool value) { return raw(name, value ? "true" : "false"); }
  Object& add(const char* name, std::uint64_t value) { return raw(name, std::to_string(value)); }
  Object& add(const char* name, int value) { return raw(name, std::to_string(value)); }
  Object& add(const char* name, double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    return raw(name, text);
  }
  Object& raw(const char* name, const std::string& value) {
    members_ += (members_.empty() ? "" : ", ") + quoted(name) + ": " + value;
    return *this;
  }
  std::string text() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

void addTimes(Object& object, const Measured& library) {
  object.add("median_us", library.timeUs.median)
      .add("p10_us", library.timeUs.p10)
      .add("p90_us", library.timeUs.p90)
      .add("p99_us", library.p99Us)
      .add("min_us", library.bestUs)
      .add("wrong", library.wrong);
  for (const auto& [name, times] : library.moreUs) {
    object.add((name + "_us").c_str(), times.median)
        .add((name + "_p10_us").c_str(), times.p10)
        .add((name + "_p90_us").c_str(), times.p90);
  }
}

std::string peersOf(const Row& row) {
  Object peers;
  for (std::size_t i = 1; i < row.libraries.size(); ++i) {
    const Measured& library = row.libraries[i];
    Object peer;
    if (library.absent.empty()) {
      addTimes(peer, library);
      peer.add("ratio", library.ratio.median)
          .add("ratio_p10", library.ratio.p10)
          .add("ratio_p90", library.ratio.p90)
          .add("ratio_low", library.ratioLow)
          .add("ratio_high", library.ratioHigh)
          .add("version", library.version);
    } else {
      peer.add("absent", library.absent);
    }
    peers.raw(library.name.c_str(), peer.text());
  }
  return peers.text();
}

std::string stateOf(const MachineState& state) {
  Object object;
  object.add("handoff_ns", state.handOffNs)
      .add("barrier_us", state.barrierUs)
      .add("wall_us", state.wallUs)
      .add("best_wall_us", state.bestWallUs);
  return object.text();
}

Object taskOf(const Row& row) {
  const Task& task = row.task;
  Object object;
  object.add("operation", traitsOf(task.op).name)
      .add("in_place", task.inPlace)
      .add("size", static_cast<std::uint64_t>(task.bytes()))
      .add("count", static_cast<std::uint64_t>(task.count))
      .add("type", nameOf(task.type))
      .add("redop", traitsOf(task.op).reduces ? nameOf(task.reduction) : "none")
      .add("root", traitsOf(task.op).rooted ? task.root : -1);
  return object;
}

Object& addMachine(Object& object, const Row& row) {
  return object.raw("before", stateOf(row.before))
      .raw("after", stateOf(row.after))
      .add("regime_changed", row.regimeChanged);
}

// One algorithm of a row of --sweep-algorithms.
std::string textOf(const Row& row, const Measured& swept) {
  Object object = taskOf(row);
  addTimes(object, swept);
  object.add("path", swept.path)
      .add("algorithm", swept.algorithm)
      .add("predicted_us", swept.swept.predictedUs)
      .add("measured_over_predicted", overPrediction(swept))
      .add("by_self", swept.swept.bySelf)
      .add("chosen", &swept == &row.libraries.front())
      .add("best", swept.swept.best)
      .add("ratio", swept.ratio.median)
      .add("ratio_p10", swept.ratio.p10)
      .add("ratio_p90", swept.ratio.p90)
      .add("ratio_low", swept.ratioLow)
      .add("ratio_high", swept.ratioHigh);
  return addMachine(object, row).text();
}

std::string textOf(const Row& row) {
  Object object = taskOf(row);
  if (!row.libraries.front().absent.empty()) object.add("absent", row.libraries.front().absent);
  addTimes(object, row.libraries.front());
  object.add("algbw_gbs", algBandwidth(row))
      .add("busbw_gbs", busBandwidth(row))
      .add("membw_gbs", memBandwidth(row))
      .add("wall_share", wallShare(row))
      .add("time_in_walls", walls(row))
      .add("least_traffic", row.task.leastTraffic())
      .add("path", row.libraries.front().path)
      .add("algorithm", row.libraries.front().algorithm);
  return addMachine(object, row).raw("peers", peersOf(row)).text();
}

class JsonReporter : public Reporter {
 public:
  explicit JsonReporter(std::FILE* out) : out_(out) {}

  void begin(const Run& run) override {
    const Options& options = *run.options;
    swept_ = options.sweepAlgorithms;
    char host[256] = "";
    (void)::gethostname(host, sizeof host - 1);
    Object head;
    head.add("benchmark", "symccl-bench")
        .add("version", version())
        .add("revision", SYMCCL_REVISION)
        .add("compiler", SYMCCL_COMPILER)
        .add("kernels", kernelIsa())
        .add("date", now())
        .add("host", host)
        .add("processor", processorName())
        .add("cpus", static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)))
        .add("interface", options.torch ? (options.async ? "torch async" : "torch") : "c++")
        .add("ranks", run.ranks)
        .add("launcher", run.launcher)
        .add("first_communicator_us", run.firstCommunicatorUs)
        .add("bound", options.bound)
        .add("iterations", options.iterations)
        .add("warmup", options.warmup)
        .add("rounds", options.rounds)
        .add("checked", options.check)
        .add("registered", options.registration > 0)
        .add("reuse_buffers", options.reuseBuffers);
    const std::string text = head.text();
    std::fprintf(out_, "%s, \"rows\": [", text.substr(0, text.size() - 1).c_str());
  }
  void row(const Row& row, const Row*) override {
    if (!swept_) return line(textOf(row));
    verdict_.add(row);
    for (const Measured& each : row.libraries) {
      if (each.absent.empty()) line(textOf(row, each));
    }
  }
  void end() override {
    std::fprintf(out_, "\n]");
    if (swept_) std::fprintf(out_, ", \"points\": %d, \"chosen_near_best\": %d", verdict_.rows(), verdict_.within());
    std::fprintf(out_, "}\n");
    std::fflush(out_);
  }

 private:
  void line(const std::string& text) {
    std::fprintf(out_, "%s\n%s", first_ ? "" : ",", text.c_str());
    first_ = false;
    std::fflush(out_);
  }

  std::FILE* out_;
  bool first_ = true, swept_ = false;
  SweepVerdict verdict_;
};

}  // namespace

std::unique_ptr<Reporter> makeJsonReporter(std::FILE* out) { return std::make_unique<JsonReporter>(out); }

}  // namespace symccl::bench
