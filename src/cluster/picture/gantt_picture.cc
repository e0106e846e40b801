#include "cluster/picture/gantt_picture.h"

#include <fmt/format.h>

#include <cmath>

#include "base/svg.h"

namespace butterfly::cluster {
namespace {

constexpr double kWidth = 1080, kLeft = 130, kRight = 110, kTop = 72, kRow = 34;

}  // namespace

std::string gantt_picture(const SimCluster& cluster, const SimReport& report, const std::string& title) {
  const auto rows = static_cast<double>(cluster.stages.size());
  const double height = kTop + rows * kRow + 64;
  double from = 1e300, to = 0;
  for (const SimInterval& i : report.intervals) from = std::min(from, i.from_s), to = std::max(to, i.to_s);
  if (report.intervals.empty()) from = 0, to = 1;
  const double span = std::max(to - from, 1e-9), width = kWidth - kLeft - kRight;
  const auto x_of = [&](double t) { return kLeft + (t - from) / span * width; };

  Svg svg(kWidth, height);
  svg.text(20, 32, title, 17, "start", "#111", "font-weight:bold");
  svg.text(
      20, 54,
      fmt::format(
          "{} requests, {:.3g} tokens/s · first token p50 {:.3g} s, p95 {:.3g} s · per token p50 {:.0f} ms, "
          "p95 {:.0f} ms",
          report.requests, report.tokens_per_s, report.first_token_s.p50, report.first_token_s.p95,
          report.token_s.p50 * 1e3, report.token_s.p95 * 1e3),
      12, "start", "#444");
  const double bottom = kTop + rows * kRow;
  const double tick = axis_tick(span);
  for (double t = std::ceil(from / tick) * tick; t <= to; t += tick) {
    svg.line(x_of(t), kTop - 2, x_of(t), bottom, "#e3e3e3");
    svg.text(x_of(t), bottom + 16, axis_time(t, tick), 11, "middle", "#666");
  }
  svg.text(kWidth - kRight + 8, kTop - 8, "busy", 11, "start", "#888");
  for (size_t i = 0; i < cluster.stages.size(); ++i) {
    const double y = kTop + static_cast<double>(i) * kRow;
    std::string name = cluster.stages[i].name;
    while (text_width(name, 13) > kLeft - 28) name.pop_back();
    svg.text(20, y + 20, name, 13);
    svg.text(kWidth - kRight + 8, y + 20, fmt::format("{:.0f} %", 100 * report.stages[i].utilisation), 12);
    svg.line(kLeft, y + kRow - 2, kWidth - kRight, y + kRow - 2, "#eee");
  }
  for (const SimInterval& i : report.intervals) {
    const double y = kTop + i.stage * kRow + 5, w = std::max(0.4, x_of(i.to_s) - x_of(i.from_s) - 0.4);
    if (i.down) {
      svg.rect(x_of(i.from_s), y, w, kRow - 12, "#333", 0, "down");
      continue;
    }
    svg.rect(x_of(i.from_s), y, w, kRow - 12, palette(i.batch), 1.5,
             fmt::format("batch {}{}: {:.3g} ms", i.batch, i.prefill ? " (prompt)" : "",
                         (i.to_s - i.from_s) * 1e3));
    if (i.prefill) svg.rect(x_of(i.from_s), y + kRow - 16, w, 4, "#222");  // prompts have a dark foot
  }
  svg.text(20, bottom + 44,
           "A colour is a batch on its way through the stages; a dark foot marks prompts, black a node that "
           "is down.",
           11, "start", "#888");
  return svg.finish();
}

}  // namespace butterfly::cluster
