#include "runtime/training/step_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/svg.h"

namespace butterfly::runtime {
namespace {

constexpr double kWidth = 1080, kLeft = 130, kRight = 110, kTop = 84, kRow = 34;

}  // namespace

std::string step_picture(const StepTrace& trace) {
  const auto& fields = cluster::kTrainTimeFields;
  double until = 0;
  for (const StepTrace::Row& row : trace.rows)
    for (const cluster::TrainSpan& span : row.spans) until = std::max(until, span.end);
  const double span_s = std::max(until, 1e-9), width = kWidth - kLeft - kRight;
  const double bottom = kTop + static_cast<double>(trace.rows.size()) * kRow;
  const auto x_of = [&](double t) { return kLeft + std::max(t, 0.0) / span_s * width; };

  Svg svg(kWidth, bottom + 64);
  svg.text(20, 32, fmt::format("Step {}", trace.step + 1), 17, "start", "#111", "font-weight:bold");
  double x = 20;
  for (size_t i = 0; i < std::size(fields); ++i) {
    if (fields[i].seconds == &cluster::TrainTimes::other) continue;
    svg.rect(x, 46, 12, 12, palette(i), 2);
    svg.text(x + 17, 56, fields[i].name, 12, "start", "#444");
    x += 34 + text_width(fields[i].name, 12);
  }
  const double tick = axis_tick(span_s);
  for (double t = 0; t <= until; t += tick) {
    svg.line(x_of(t), kTop - 2, x_of(t), bottom, "#e3e3e3");
    svg.text(x_of(t), bottom + 16, axis_time(t, tick), 11, "middle", "#666");
  }
  svg.text(kWidth - kRight + 8, kTop - 8, "compute", 11, "start", "#888");
  double y = kTop;
  for (const StepTrace::Row& row : trace.rows) {
    std::string name = row.name;
    while (text_width(name, 13) > kLeft - 28) name.pop_back();
    svg.text(20, y + 20, name, 13);
    double compute = 0;
    for (const cluster::TrainSpan& span : row.spans) {
      if (span.field == cluster::kTrainSpanBeside) {
        svg.rect(x_of(span.begin), y + kRow - 7, std::max(0.3, x_of(span.end) - x_of(span.begin)), 3, "#555",
                 0, fmt::format("sent beside: {:.3g} ms", (span.end - span.begin) * 1e3));
        continue;
      }
      const auto& field = fields[span.field];
      if (field.seconds == &cluster::TrainTimes::compute) compute += span.end - span.begin;
      svg.rect(x_of(span.begin), y + 5, std::max(0.3, x_of(span.end) - x_of(span.begin)), kRow - 12,
               palette(span.field), 1,
               fmt::format("{}: {:.3g} ms", field.name, (span.end - span.begin) * 1e3));
    }
    svg.text(kWidth - kRight + 8, y + 20, fmt::format("{:.0f} %", 100 * compute / span_s), 12);
    svg.line(kLeft, y + kRow - 2, kWidth - kRight, y + kRow - 2, "#eee");
    y += kRow;
  }
  svg.text(
      20, bottom + 44,
      "Each row counts from the moment its node was dealt the step; the wait at its end is for the next one.",
      11, "start", "#888");
  return svg.finish();
}

}  // namespace butterfly::runtime
