#include "cluster/picture/plan_picture.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/svg.h"
#include "base/units.h"

namespace butterfly::cluster {
namespace {

constexpr double kPlanWidth = 960, kMargin = 24, kPlanRow = 34, kNameColumn = 150;
constexpr size_t kLeftOutMax = 8;  // named; more are counted

std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-4) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.2g} µs", seconds * 1e6);
}

std::string stage_name(const Problem& problem, const Stage& stage) {
  std::string name;
  for (size_t node : stage.nodes) name += (name.empty() ? "" : " + ") + problem.cluster().nodes[node].name;
  return name;
}

std::string pieces_text(const Problem& problem, const Stage& stage) {
  const auto& pieces = problem.list().pieces;
  if (stage.size() == 1) return pieces[stage.begin].name;
  return fmt::format("{} – {}", pieces[stage.begin].name, pieces[stage.end - 1].name);
}

// Cut to what fits, with dots.
std::string fitted(std::string text, double width, double size) {
  while (text.size() > 3 && text_width(text, size) > width) text = text.substr(0, text.size() - 4) + "…";
  return text;
}

void draw_chain(Svg& svg, const Problem& problem, const Plan& plan, double y) {
  const double width = kPlanWidth - 2 * kMargin, each = width / static_cast<double>(problem.pieces());
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    const double x = kMargin + static_cast<double>(stage.begin) * each;
    const double w = static_cast<double>(stage.size()) * each - 1.5;
    svg.rect(x, y, w, 30, palette(i), 3,
             fmt::format("{}: {}", stage_name(problem, stage), pieces_text(problem, stage)));
    const std::string count = fmt::format("{}", stage.size());
    if (text_width(count, 12) < w - 4)
      svg.text(x + w / 2, y + 20, count, 12, "middle", "#fff", "font-weight:bold");
  }
  svg.text(kMargin, y + 46, problem.list().pieces.front().name, 11, "start", "#666");
  svg.text(kPlanWidth - kMargin, y + 46, problem.list().pieces.back().name, 11, "end", "#666");
}

// One node: name, pieces, a bar of time and a bar of memory.
void draw_stage(Svg& svg, const Problem& problem, const PlannedChain& planned, size_t i, double y,
                double longest_s) {
  const Stage& stage = planned.plan.stages[i];
  const StagePrediction& p = planned.prediction.stages[i];
  svg.rect(kMargin, y + 4, 12, 12, palette(i), 2);
  svg.text(kMargin + 18, y + 15, fitted(stage_name(problem, stage), kNameColumn - 20, 13), 13, "start",
           "#222", "font-weight:bold");
  svg.text(kMargin + 18, y + 29, fitted(pieces_text(problem, stage), kNameColumn + 20, 10), 10, "start",
           "#666");
  const double time_x = kMargin + kNameColumn + 40, time_w = 260;
  svg.rect(time_x, y + 4, time_w, 16, "#eee", 2);
  svg.rect(time_x, y + 4, std::max(1.0, time_w * p.seconds / longest_s), 16, palette(i), 2);
  svg.text(time_x + time_w + 6, y + 16, time_text(p.seconds), 12);
  if (p.hop_in.message_s > 0)
    svg.text(time_x, y + 31, fmt::format("hop in {}", time_text(p.hop_in.message_s)), 10, "start", "#666");
  const double memory_x = time_x + time_w + 90, memory_w = 170;
  const auto room = static_cast<double>(std::max<uint64_t>(p.room_bytes, 1));
  const double weights_w = memory_w * std::min(1.0, static_cast<double>(p.weight_bytes) / room);
  const double kv_w = std::min(memory_w - weights_w, memory_w * static_cast<double>(p.kv_bytes) / room);
  svg.rect(memory_x, y + 4, memory_w, 16, "#eee", 2);
  svg.rect(memory_x, y + 4, weights_w, 16, "#7a869a", 2);
  svg.rect(memory_x + weights_w, y + 4, kv_w, 16, "#b9c2d0", 2);
  svg.text(memory_x + memory_w + 6, y + 16, format_bytes(p.weight_bytes + p.kv_bytes), 12);
  svg.text(memory_x, y + 31, fmt::format("of {}", format_bytes(p.room_bytes)), 10, "start", "#666");
}

std::string headline(const Problem& problem, const PlannedChain& planned) {
  const Prediction& p = planned.prediction;
  return fmt::format(
             "{} per token for one stream · {:.3g} tokens/s when full · {} hop{} · balance {:.2f} · gap "
             "{:.1f} %",
             time_text(p.latency_s), p.tokens_per_s, p.hops, p.hops == 1 ? "" : "s", p.load_balance,
             100 * planned.gap) +
         (problem.list().batch > 1 ? fmt::format(" · batches of {}", problem.list().batch) : "");
}

}  // namespace

std::string plan_picture(const Problem& problem, const PlannedChain& planned) {
  std::vector<std::string> left_out;
  for (size_t node = 0; node < problem.nodes(); ++node)
    if (std::none_of(planned.plan.stages.begin(), planned.plan.stages.end(), [&](const Stage& stage) {
          return std::find(stage.nodes.begin(), stage.nodes.end(), node) != stage.nodes.end();
        }))
      left_out.push_back(problem.cluster().nodes[node].name);
  const auto stages = static_cast<double>(planned.plan.stages.size());
  const double rows_y = 172;
  const double height = rows_y + stages * kPlanRow + 24 + (left_out.empty() ? 0 : 22);
  Svg svg(kPlanWidth, height);
  svg.text(kMargin, 34,
           fmt::format("{} on {} of {} nodes", problem.list().model, problem.nodes() - left_out.size(),
                       problem.nodes()),
           18, "start", "#111", "font-weight:bold");
  svg.text(kMargin, 56, headline(problem, planned), 12, "start", "#444");
  draw_chain(svg, problem, planned.plan, 76);
  double longest = 0;
  for (const StagePrediction& stage : planned.prediction.stages) longest = std::max(longest, stage.seconds);
  const double time_x = kMargin + kNameColumn + 40;
  svg.text(kMargin, rows_y - 12, "node and pieces", 11, "start", "#888");
  svg.text(time_x, rows_y - 12, "time of a step", 11, "start", "#888");
  svg.text(time_x + 350, rows_y - 12, "weights and cache", 11, "start", "#888");
  svg.line(kMargin, rows_y - 5, kPlanWidth - kMargin, rows_y - 5, "#ddd");
  for (size_t i = 0; i < planned.plan.stages.size(); ++i)
    draw_stage(svg, problem, planned, i, rows_y + static_cast<double>(i) * kPlanRow, longest);
  if (!left_out.empty()) {
    std::string names;
    for (size_t i = 0; i < std::min(left_out.size(), kLeftOutMax); ++i)
      names += (i == 0 ? "" : ", ") + left_out[i];
    if (left_out.size() > kLeftOutMax) names += fmt::format(" and {} more", left_out.size() - kLeftOutMax);
    svg.text(kMargin, rows_y + stages * kPlanRow + 18,
             fitted("left out: " + names, kPlanWidth - 2 * kMargin, 12), 12, "start", "#888");
  }
  return svg.finish();
}

}  // namespace butterfly::cluster
