#include "symccl_bench/plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <vector>

#include "symccl_bench/failure.hpp"
#include "symccl_bench/report.hpp"

namespace symccl::bench {

namespace {

constexpr double kWidth = 460, kHeight = 320, kLeft = 56, kRight = 16, kTop = 34, kBottom = 40, kLegend = 34;
// Told apart by the eye also where colours are not.
constexpr std::array<const char*, 8> kColours = {"#0b5fff", "#d1495b", "#edae49", "#2e8b57",
                                                 "#6b4ea0", "#7f7f7f", "#00a0a0", "#a0522d"};

struct Point {
  double bytes, us, low, high;
};
using Lines = std::map<std::string, std::vector<Point>>;  // by library

/// What is drawn together.
struct Panel {
  std::string title;
  Lines lines;
};

struct Drawing {
  std::vector<Panel> panels;
  std::vector<std::string> libraries;  // ours, then peers as they were named
};

std::string text(const char* format, auto... values) {
  char buffer[512];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

std::string titleOf(const Json& row) {
  std::string title = row["operation"].text + (row["in_place"].isTrue ? " in place" : "") + ", " + row["type"].text;
  if (row["redop"].text != "none") title += " " + row["redop"].text;
  if (row["root"].number >= 0) title += text(", root %.0f", row["root"].number);
  return title;
}

Panel& panelOf(Drawing& drawing, const std::string& title) {
  for (Panel& panel : drawing.panels) {
    if (panel.title == title) return panel;
  }
  drawing.panels.push_back({title, {}});
  return drawing.panels.back();
}

void addPoint(Drawing& drawing, Panel& panel, const std::string& library, double bytes, const Json& times) {
  const double us = times["median_us"].number;
  if (!(us > 0)) return;
  if (std::find(drawing.libraries.begin(), drawing.libraries.end(), library) == drawing.libraries.end()) {
    drawing.libraries.push_back(library);
  }
  panel.lines[library].push_back({bytes, us, times["p10_us"].number, times["p90_us"].number});
}

Drawing drawingOf(const Json& document) {
  Drawing drawing;
  for (const Json& row : document["rows"].items) {
    const double bytes = row["size"].number;
    if (!(bytes > 0)) continue;
    Panel& panel = panelOf(drawing, titleOf(row));
    addPoint(drawing, panel, "symccl", bytes, row);
    for (const auto& [name, peer] : row["peers"].members) addPoint(drawing, panel, name, bytes, peer);
  }
  std::erase_if(drawing.panels, [](const Panel& panel) { return panel.lines.empty(); });
  if (drawing.panels.empty()) throw Failure("no row has a size and a time: nothing to draw");
  return drawing;
}

/// A logarithmic axis from `low` to `high` on `from` to `to` of the drawing.
struct Axis {
  double low, high, from, to;
  double at(double value) const {
    if (high <= low) return (from + to) / 2;
    return from + (to - from) * std::log(value / low) / std::log(high / low);
  }
};

std::string bytesText(double bytes) {
  constexpr std::array<const char*, 4> kUnits = {" B", "K", "M", "G"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return text("%.3g%s", bytes, kUnits[unit]);
}

std::string timeText(double us) {
  if (us >= 1e6) return text("%g s", us / 1e6);
  if (us >= 1e3) return text("%g ms", us / 1e3);
  return us >= 1 ? text("%g us", us) : text("%g ns", us * 1e3);
}

std::string line(double x1, double y1, double x2, double y2, const char* colour) {
  return text("<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='%s'/>\n", x1, y1, x2, y2, colour);
}

std::string label(double x, double y, const char* anchor, const std::string& words) {
  return text("<text x='%.1f' y='%.1f' text-anchor='%s'>%s</text>\n", x, y, anchor, words.c_str());
}

std::string grid(const Panel& panel, const Axis& size, const Axis& time) {
  std::vector<double> sizes;
  for (const auto& [library, points] : panel.lines) {
    for (const Point& point : points) sizes.push_back(point.bytes);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::string svg;
  double free = -1e9;  // labels do not run into each other
  for (double bytes : sizes) {
    const double x = size.at(bytes);
    svg += line(x, time.to, x, time.from, "#eeeeee");
    if (x < free) continue;
    svg += label(x, time.from + 16, "middle", bytesText(bytes));
    free = x + 40;
  }
  for (double us = time.low; us <= time.high * 1.001; us *= 10) {
    svg += line(size.from, time.at(us), size.to, time.at(us), "#dddddd");
    svg += label(size.from - 6, time.at(us) + 4, "end", timeText(us));
  }
  return svg;
}

std::string curve(const std::vector<Point>& points, const Axis& size, const Axis& time, const char* colour) {
  std::string path, marks;
  for (const Point& point : points) {
    const double x = size.at(point.bytes), y = time.at(point.us);
    path += text("%s%.1f %.1f", path.empty() ? "M" : " L", x, y);
    marks += text("<circle cx='%.1f' cy='%.1f' r='2.5' fill='%s'/>\n", x, y, colour);
    if (point.low > 0 && point.high > 0) marks += line(x, time.at(point.low), x, time.at(point.high), colour);
  }
  return "<path d='" + path + "' fill='none' stroke-width='1.5' stroke='" + colour + "'/>\n" + marks;
}

std::string panelSvg(const Drawing& drawing, const Panel& panel, double left, double top) {
  Axis size{1e300, 0, left + kLeft, left + kWidth - kRight}, time{1e300, 0, top + kHeight - kBottom, top + kTop};
  for (const auto& [library, points] : panel.lines) {
    for (const Point& point : points) {
      size.low = std::min(size.low, point.bytes);
      size.high = std::max(size.high, point.bytes);
      time.low = std::min(time.low, point.low > 0 ? point.low : point.us);
      time.high = std::max({time.high, point.us, point.high});
    }
  }
  time.low = std::pow(10, std::floor(std::log10(time.low)));
  time.high = std::pow(10, std::ceil(std::log10(time.high) + 1e-9));
  std::string svg = label(left + kLeft, top + 20, "start", panel.title) + grid(panel, size, time);
  for (std::size_t i = drawing.libraries.size(); i-- > 0;) {  // ours on top
    const auto found = panel.lines.find(drawing.libraries[i]);
    if (found != panel.lines.end()) svg += curve(found->second, size, time, kColours[i % kColours.size()]);
  }
  return svg;
}

/// Gathers the rows as JSON and draws them at the end.
class PlotReporter : public Reporter {
 public:
  explicit PlotReporter(std::FILE* out) : out_(out), memory_(::open_memstream(&rows_, &bytes_)) {
    if (memory_ == nullptr) throw Failure("no memory to gather the rows of a drawing in");
    json_ = makeJsonReporter(memory_);
  }
  ~PlotReporter() override {
    std::fclose(memory_);
    std::free(rows_);
  }
  void begin(const Run& run) override { json_->begin(run); }
  void row(const Row& row, const Row* inPlace) override { json_->row(row, inPlace); }
  void end() override {
    json_->end();
    const std::string svg = drawRows(parseJson(std::string(rows_, bytes_)));
    std::fwrite(svg.data(), 1, svg.size(), out_);
    std::fflush(out_);
  }

 private:
  std::FILE* out_;
  char* rows_ = nullptr;
  std::size_t bytes_ = 0;
  std::FILE* memory_;
  std::unique_ptr<Reporter> json_;
};

}  // namespace

std::string drawRows(const Json& document) {
  const Drawing drawing = drawingOf(document);
  const std::size_t columns = std::min<std::size_t>(2, drawing.panels.size());
  const std::size_t lines = (drawing.panels.size() + columns - 1) / columns;
  const double width = kWidth * static_cast<double>(columns), height = kLegend + kHeight * static_cast<double>(lines);
  std::string svg = text(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %.0f %.0f' width='%.0f' height='%.0f' "
      "font-family='sans-serif' font-size='11' fill='#222222'>\n<rect width='100%%' height='100%%' fill='white'/>\n",
      width, height, width, height);
  double x = kLeft;
  for (std::size_t i = 0; i < drawing.libraries.size(); ++i) {
    const std::string& name = drawing.libraries[i];
    svg += text("<rect x='%.1f' y='14' width='12' height='4' fill='%s'/>\n", x, kColours[i % kColours.size()]);
    svg += label(x + 16, 20, "start", name);
    x += 30 + 7 * static_cast<double>(name.size());
  }
  svg += label(width - kRight, 20, "end", text("%.0f ranks; median, p10 to p90", document["ranks"].number));
  for (std::size_t i = 0; i < drawing.panels.size(); ++i) {
    const double left = kWidth * static_cast<double>(i % columns),
                 top = kLegend + kHeight * static_cast<double>(i / columns);
    svg += panelSvg(drawing, drawing.panels[i], left, top);
  }
  return svg + "</svg>\n";
}

int plot(const std::string& rows, const std::string& drawing) {
  const std::string svg = drawRows(readJson(rows));
  if (drawing == "-") {
    std::fwrite(svg.data(), 1, svg.size(), stdout);
    return 0;
  }
  std::ofstream file(drawing);
  file << svg;
  file.close();
  if (!file) throw Failure("cannot write " + drawing);
  return 0;
}

std::unique_ptr<Reporter> makePlotReporter(std::FILE* out) { return std::make_unique<PlotReporter>(out); }

}  // namespace symccl::bench
