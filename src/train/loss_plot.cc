#include "train/loss_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

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
  for (const double unit : {0.001, 0.01, 0.1, 1.0, 10.0}) {
    for (const double times : {1.0, 2.0, 5.0}) {
      const double loss = unit * times;
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

}  // namespace

std::string loss_plot(std::span<const MetricsLine> lines) {
  Svg svg(kLeft + kWidth + 30, kTop + kHeight + 50);
  const Axes axes = axes_of(lines);
  svg.text(kLeft, 26, "Loss", 16, "start", "#222", "font-weight:bold");
  draw_grid(svg, axes);
  std::string exact, smooth;
  double mean = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    // About the last twentieth of the lines, fewer at the beginning.
    const double weight =
        std::max(1.0 / static_cast<double>(i + 1), 40.0 / static_cast<double>(lines.size() + 40));
    mean += (lines[i].loss - mean) * std::min(1.0, weight);
    const double x = axes.x(static_cast<double>(lines[i].step));
    exact += fmt::format("{:.1f},{:.1f} ", x, axes.y(lines[i].loss));
    smooth += fmt::format("{:.1f},{:.1f} ", x, axes.y(mean));
  }
  svg.polyline(exact, "#bcd0e2", 1);
  svg.polyline(smooth, palette(0), 2);
  std::string words = lines.empty() ? "no steps yet" : fmt::format("training {:.4f}", mean);
  std::string valid;
  for (const MetricsLine& line : lines) {
    if (!line.valid) continue;
    const double x = axes.x(static_cast<double>(line.step)), y = axes.y(*line.valid);
    svg.rect(x - 3, y - 3, 6, 6, palette(1), 3, fmt::format("step {}: {:.4f}", line.step, *line.valid));
    valid = fmt::format(", validation {:.4f}", *line.valid);
  }
  svg.text(kLeft, 46, words + valid, 12, "start", "#666");
  return svg.finish();
}

void write_loss_plot(const std::filesystem::path& metrics, const std::filesystem::path& path) {
  std::ofstream out(path, std::ios::binary);
  out << loss_plot(read_metrics(metrics));
  out.close();
  if (!out) fail(Errc::kIo, "{}: cannot be written", path.string());
}

}  // namespace butterfly::train
