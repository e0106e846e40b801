#include "train/loss_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "base/svg.h"

namespace butterfly::train {
namespace {

constexpr double kLeft = 70, kTop = 60, kWidth = 700, kHeight = 340;

struct Axes {
  double steps, low, high;  // low and high are logarithms
  double x(double step) const { return kLeft + kWidth * step / steps; }
  double y(double loss) const {
    const double part = (std::log(std::max(loss, 1e-12)) - low) / (high - low);
    return kTop + kHeight * (1 - std::clamp(part, 0.0, 1.0));
  }
};

Axes axes_of(std::span<const MetricsLine> lines) {
  double low = 1e300, high = 1e-300;
  const auto include = [&](double loss) {
    if (!(loss > 0)) return;
    low = std::min(low, loss);
    high = std::max(high, loss);
  };
  for (const MetricsLine& line : lines) {
    include(line.loss);
    if (line.valid) include(*line.valid);
  }
  if (low > high) low = 0.1, high = 1;
  return {static_cast<double>(std::max<uint64_t>(1, lines.empty() ? 1 : lines.back().step)),
          std::log(low * 0.9), std::log(high * 1.1)};
}

void draw_grid(Svg& svg, const Axes& axes) {
  // 1, 2, 5 of each power of ten; all the digits where a run spans little.
  const bool fine = axes.high - axes.low < std::log(8.0);
  for (const double unit : {1e-5, 1e-4, 0.001, 0.01, 0.1, 1.0, 10.0}) {
    for (int digit = 1; digit < 10; ++digit) {
      const double loss = unit * digit;
      if (!fine && digit != 1 && digit != 2 && digit != 5) continue;
      if (std::log(loss) < axes.low || std::log(loss) > axes.high) continue;
      svg.line(kLeft, axes.y(loss), kLeft + kWidth, axes.y(loss), "#e4e4e4");
      svg.text(kLeft - 8, axes.y(loss) + 4, fmt::format("{:g}", loss), 11, "end", "#666");
    }
  }
  double tick = std::pow(10, std::floor(std::log10(axes.steps)));
  if (axes.steps / tick < 3) tick /= 5;
  for (double step = 0; step <= axes.steps; step += tick)
    svg.text(axes.x(step), kTop + kHeight + 18, fmt::format("{:g}", step), 11, "middle", "#666");
  svg.text(kLeft + kWidth, kTop + kHeight + 36, "steps", 11, "end", "#666");
}

// Through a line's neighbours, a twentieth of all together and half as many at the ends, goes the straight
// line that fits their logarithms best, and the curve is where it passes: it neither lags behind what it
// smooths nor ends wherever the last step happened to be. (In the middle that is their geometric mean.)
std::vector<double> smoothed(std::span<const MetricsLine> lines) {
  struct Sums {
    double x = 0, xx = 0, y = 0, xy = 0;
  };
  std::vector<Sums> sums(1);
  for (size_t i = 0; i < lines.size(); ++i) {
    const double x = static_cast<double>(i), y = std::log(std::max(lines[i].loss, 1e-12));
    const Sums& s = sums.back();
    sums.push_back({s.x + x, s.xx + x * x, s.y + y, s.xy + x * y});
  }
  const size_t reach = lines.size() / 40;
  std::vector<double> curve;
  for (size_t i = 0; i < lines.size(); ++i) {
    const size_t begin = i - std::min(i, reach), end = std::min(i + reach + 1, lines.size());
    const Sums &a = sums[begin], &b = sums[end];
    const double n = static_cast<double>(end - begin), x = (b.x - a.x) / n, y = (b.y - a.y) / n;
    const double spread = (b.xx - a.xx) / n - x * x, slope = ((b.xy - a.xy) / n - x * y) / spread;
    curve.push_back(std::exp(end - begin < 3 ? y : y + slope * (static_cast<double>(i) - x)));
  }
  return curve;
}

// Of the last fortieth of the lines, and at least of the last.
double last_mean(std::span<const MetricsLine> lines) {
  const auto last = lines.last(lines.size() / 40 + 1);
  double sum = 0;
  for (const MetricsLine& line : last) sum += line.loss;
  return sum / static_cast<double>(last.size());
}

}  // namespace

std::string loss_plot(std::span<const MetricsLine> lines) {
  Svg svg(kLeft + kWidth + 30, kTop + kHeight + 50);
  const Axes axes = axes_of(lines);
  svg.text(kLeft, 26, "Loss", 16, "start", "#222", "font-weight:bold");
  draw_grid(svg, axes);
  const std::vector<double> curve = smoothed(lines);
  std::string exact, smooth, valid;
  for (size_t i = 0; i < lines.size(); ++i) {
    const double x = axes.x(static_cast<double>(lines[i].step));
    exact += fmt::format("{:.1f},{:.1f} ", x, axes.y(lines[i].loss));
    smooth += fmt::format("{:.1f},{:.1f} ", x, axes.y(curve[i]));
    if (lines[i].valid) valid += fmt::format("{:.1f},{:.1f} ", x, axes.y(*lines[i].valid));
  }
  svg.polyline(exact, "#bcd0e2", 1);
  svg.polyline(smooth, palette(0), 2);
  svg.polyline(valid, palette(1), 1);
  const MetricsLine* last_valid = nullptr;
  for (const MetricsLine& line : lines) {
    if (!line.valid) continue;
    const double x = axes.x(static_cast<double>(line.step)), y = axes.y(*line.valid);
    svg.rect(x - 3, y - 3, 6, 6, palette(1), 3, fmt::format("step {}: {:.4f}", line.step, *line.valid));
    last_valid = &line;
  }
  // The legend, with where things stand.
  const std::string training =
      lines.empty() ? "no steps yet" : fmt::format("training {:.4f}", last_mean(lines));
  svg.line(kLeft, 42, kLeft + 16, 42, palette(0), 2);
  svg.text(kLeft + 22, 46, training, 12, "start", "#444");
  if (last_valid != nullptr) {
    const double x = kLeft + 22 + text_width(training, 12) + 24;
    std::string words = fmt::format("validation {:.4f}", *last_valid->valid);
    if (last_valid->valid_right) words += fmt::format(", {:.2f} % right", 100 * *last_valid->valid_right);
    svg.rect(x, 39, 6, 6, palette(1), 3);
    svg.text(x + 12, 46, words, 12, "start", "#444");
  }
  return svg.finish();
}

void write_loss_plot(const std::filesystem::path& metrics, const std::filesystem::path& path) {
  std::ofstream out(path, std::ios::binary);
  out << loss_plot(read_metrics(metrics));
  out.close();
  if (!out) fail(Errc::kIo, "{}: cannot be written", path.string());
}

}  // namespace butterfly::train
