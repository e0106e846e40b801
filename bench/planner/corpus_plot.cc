#include "planner/corpus_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/svg.h"

namespace butterfly::bench {
namespace {

constexpr double kPanelWidth = 520, kRow = 24, kNames = 150, kRightSpace = 60;
constexpr double kRatioMax = 16;

double x_of(double ratio) {
  const double width = kPanelWidth - kNames - kRightSpace;
  return kNames + std::log(std::clamp(ratio, 1.0, kRatioMax)) / std::log(kRatioMax) * width;
}

void draw_panel(Svg& svg, const RatioPanel& panel, double left, double top) {
  svg.text(left, top, panel.title, 14, "start", "#222", "font-weight:bold");
  const double first = top + 16, bottom = first + kRow * static_cast<double>(panel.rows.size());
  for (double tick : {1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 16.0}) {
    svg.line(left + x_of(tick), first - 4, left + x_of(tick), bottom, tick == 1 ? "#888" : "#e2e2e2");
    svg.text(left + x_of(tick), bottom + 14, fmt::format("{:g}", tick), 11, "middle", "#666");
  }
  for (size_t i = 0; i < panel.rows.size(); ++i) {
    const RatioRow& row = panel.rows[i];
    const double y = first + kRow * (static_cast<double>(i) + 0.5);
    const std::string_view colour = row.ours ? "#4477AA" : "#CC6677";
    svg.text(left + kNames - 10, y + 4, row.name, 12, "end");
    if (row.ratios.empty()) continue;
    const auto at = [&](double share) { return left + x_of(quantile(row.ratios, share)); };
    svg.line(at(0.05), y, at(0.95), y, colour, 2);
    svg.rect(at(0.25), y - 5, std::max(1.0, at(0.75) - at(0.25)), 10, colour, 2);
    svg.rect(at(0.5) - 2, y - 8, 4, 16, "#111", 1);
    svg.text(left + kPanelWidth - kRightSpace + 10, y + 4, fmt::format("{:.2f}", quantile(row.ratios, 0.5)),
             12);
  }
}

}  // namespace

double quantile(const std::vector<double>& ascending, double share) {
  if (ascending.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(ascending.size())));
  return ascending[std::max<size_t>(rank, 1) - 1];
}

std::string ratio_plot(const std::string& title, const std::vector<RatioPanel>& panels) {
  const double panel_height = 60 + kRow * static_cast<double>(panels.front().rows.size());
  const auto rows = static_cast<double>((panels.size() + 1) / 2);
  Svg svg(2 * kPanelWidth + 70, 112 + rows * panel_height);
  svg.text(24, 32, title, 17, "start", "#111", "font-weight:bold");
  svg.text(24, 54,
           "Time over the optimum's (1 is best). Mark and figure: median; box: middle half; line: 5th to "
           "95th percentile.",
           12, "start", "#555");
  svg.rect(24, 64, 10, 10, "#4477AA", 2);
  svg.text(40, 73, "strategies of this program", 12, "start", "#555");
  svg.rect(250, 64, 10, 10, "#CC6677", 2);
  svg.text(266, 73, "rules of other tools, written anew from their descriptions", 12, "start", "#555");
  for (size_t i = 0; i < panels.size(); ++i)
    draw_panel(svg, panels[i], 24 + static_cast<double>(i % 2) * (kPanelWidth + 20),
               108 + static_cast<double>(i / 2) * panel_height);
  return svg.finish();
}

}  // namespace butterfly::bench
