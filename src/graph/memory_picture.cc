#include "graph/memory_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/checked.h"
#include "base/svg.h"
#include "base/units.h"

namespace butterfly::graph {
namespace {

// Live bytes at each step, the lasting classes included.
std::vector<size_t> live_bytes(const Graph& graph, const MemoryPlan& plan) {
  std::vector<size_t> change(graph.nodes().size() + 2, 0);  // unsigned wrap-around is undone by the sums
  for (const PlannedBuffer& buffer : plan.buffers) {
    const size_t bytes = round_up(buffer.life.bytes, kBufferAlign);
    change[buffer.life.first] += bytes;
    change[buffer.life.last + 1] -= bytes;
  }
  std::vector<size_t> live;
  size_t now = 0;
  for (size_t step = 0; step + 1 < change.size(); ++step) live.push_back(now += change[step]);
  return live;
}

size_t fullest_step(const std::vector<size_t>& live) {
  return static_cast<size_t>(std::max_element(live.begin(), live.end()) - live.begin());
}

std::string buffer_name(const Graph& graph, const PlannedBuffer& buffer) {
  if (buffer.node >= 0) return graph.nodes()[static_cast<size_t>(buffer.node)].name + " (scratch)";
  const Value& value = graph.values()[static_cast<size_t>(buffer.value)];
  return value.name;
}

// What the rectangle's colour stands for.
std::string kind_of(const Graph& graph, const PlannedBuffer& buffer) {
  if (buffer.node >= 0) return "scratch";
  const Value& value = graph.values()[static_cast<size_t>(buffer.value)];
  if (value.memory != MemoryClass::kActivations) return std::string(memory_class_name(value.memory));
  if (value.producer < 0) return "inputs";
  return std::string(graph.nodes()[static_cast<size_t>(value.producer)].op->name);
}

// Kinds with the most bytes x steps first: they get the colours that are easiest to tell apart.
std::vector<std::string> kinds_by_area(const Graph& graph, const MemoryPlan& plan) {
  std::map<std::string, double> areas;
  for (const PlannedBuffer& buffer : plan.buffers)
    areas[kind_of(graph, buffer)] +=
        static_cast<double>(buffer.life.bytes) * (buffer.life.last - buffer.life.first + 1);
  std::vector<std::string> kinds;
  for (const auto& [kind, area] : areas)
    if (area > 0) kinds.push_back(kind);
  std::stable_sort(kinds.begin(), kinds.end(),
                   [&](const std::string& a, const std::string& b) { return areas[a] > areas[b]; });
  return kinds;
}

// A power of two of bytes that cuts the axis into four to eight parts.
size_t tick_bytes(size_t bytes) {
  size_t tick = 1;
  while (bytes / tick > 8) tick *= 2;
  return tick;
}

// A multiple of a tick: in the tick's unit, where it is a whole number.
std::string tick_text(size_t at, size_t tick) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  for (; unit + 1 < std::size(kUnits) && tick >= 1024; ++unit) tick /= 1024, at /= 1024;
  return at == 0 ? "0" : fmt::format("{} {}", at, kUnits[unit]);
}

// 1, 2 or 5 times a power of ten steps, five to thirteen of them.
size_t tick_steps(size_t steps) {
  for (size_t power = 1;; power *= 10)
    for (const size_t digit : {1, 2, 5})
      if (steps / (power * digit) <= 12) return power * digit;
}

struct Frame {
  double left, top, width, height;
  double steps, bytes;
  double x(double step) const { return left + width * step / steps; }
  double y(double at) const { return top + height * (1 - at / bytes); }
};

void draw_axes(Svg& svg, const Frame& frame, std::string_view words) {
  const size_t tick = tick_bytes(static_cast<size_t>(frame.bytes));
  for (size_t at = 0; static_cast<double>(at) <= frame.bytes; at += tick) {
    const double y = frame.y(static_cast<double>(at));
    svg.line(frame.left, y, frame.left + frame.width, y, "#e4e4e4");
    svg.text(frame.left - 6, y + 4, tick_text(at, tick), 11, "end", "#666");
  }
  svg.text(frame.left, frame.top - 8, words, 12, "start", "#444");
}

void draw_live(Svg& svg, const Frame& frame, const std::vector<size_t>& live, const MemoryPlan& plan) {
  std::string points;
  for (size_t step = 0; step < live.size(); ++step) {
    const double y = frame.y(static_cast<double>(live[step]));
    points += fmt::format("{:.1f},{:.1f} {:.1f},{:.1f} ", frame.x(static_cast<double>(step)), y,
                          frame.x(static_cast<double>(step + 1)), y);
  }
  svg.polyline(points, "#4477AA", 1.5);
  const double load = frame.y(static_cast<double>(plan.live_bytes_max));
  svg.line(frame.left, load, frame.left + frame.width, load, "#CC6677", 1, "5,4");
  const size_t peak = fullest_step(live);
  svg.text(frame.x(static_cast<double>(peak) + 0.5), frame.top + frame.height + 14,
           fmt::format("fullest: step {}", peak), 11, "middle", "#666");
}

void draw_buffers(Svg& svg, const Frame& frame, const Graph& graph, const MemoryPlan& plan,
                  const std::vector<std::string>& kinds) {
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (buffer.life.bytes == 0) continue;
    const auto kind = std::find(kinds.begin(), kinds.end(), kind_of(graph, buffer)) - kinds.begin();
    const double x = frame.x(buffer.life.first), right = frame.x(buffer.life.last + 1.0);
    const double top = frame.y(static_cast<double>(buffer.offset + buffer.life.bytes));
    const double bottom = frame.y(static_cast<double>(buffer.offset));
    // A hair of white between neighbours, where there is room for it.
    const double gap = bottom - top > 3 ? 0.5 : 0;
    svg.rect(x, top + gap, std::max(right - x, 0.3), std::max(bottom - top - gap, 0.3),
             palette(static_cast<size_t>(kind)), 0,
             fmt::format("{}: {}, steps {} to {}", buffer_name(graph, buffer),
                         format_bytes(buffer.life.bytes), buffer.life.first, buffer.life.last));
  }
}

void draw_steps(Svg& svg, const Frame& frame) {
  const size_t tick = tick_steps(static_cast<size_t>(frame.steps));
  const double y = frame.top + frame.height;
  for (size_t step = 0; static_cast<double>(step) <= frame.steps; step += tick) {
    const double x = frame.x(static_cast<double>(step));
    svg.line(x, y, x, y + 4, "#999");
    svg.text(x, y + 17, fmt::format("{}", step), 11, "middle", "#666");
  }
  svg.text(frame.left + frame.width, y + 33, "steps", 11, "end", "#666");
}

// Squares and words from left to right, as many lines as they need.
class Legend {
 public:
  Legend(const std::vector<std::string>& kinds, double left, double right) {
    double x = left;
    for (const std::string& kind : kinds) {
      const double width = text_width(kind, 11) + 30;
      if (x + width > right && x > left) {
        x = left;
        ++lines_;
      }
      items_.push_back({&kind, x, kLine * static_cast<double>(lines_ - 1)});
      x += width;
    }
  }
  double height() const { return kLine * static_cast<double>(lines_); }
  void draw(Svg& svg, double top) const {
    for (size_t i = 0; i < items_.size(); ++i) {
      const auto& [kind, x, y] = items_[i];
      svg.rect(x, top + y, 11, 11, palette(i), 2);
      svg.text(x + 16, top + y + 9, *kind, 11, "start", "#444");
    }
  }

 private:
  static constexpr double kLine = 18;
  struct Item {
    const std::string* kind;
    double x, y;
  };
  std::vector<Item> items_;
  size_t lines_ = 1;
};

}  // namespace

std::string memory_report(const Graph& graph, const MemoryPlan& plan) {
  std::string text = fmt::format("{:<14}{:>8}{:>12}{:>12}{:>12}{:>11}  {}\n", "memory", "buffers", "unshared",
                                 "LOAD", "pool", "pool/LOAD", "placed by");
  size_t buffers_all = 0, sum_all = 0;
  const auto row = [&](std::string_view name, size_t buffers, size_t sum, size_t load, size_t pool,
                       std::string_view order) {
    text += fmt::format("{:<14}{:>8}{:>12}{:>12}{:>12}{:>11.4f}  {}\n", name, buffers, format_bytes(sum),
                        format_bytes(load), format_bytes(pool),
                        load == 0 ? 1.0 : static_cast<double>(pool) / static_cast<double>(load), order);
  };
  for (size_t c = 0; c < kMemoryClasses; ++c) {
    size_t buffers = 0, sum = 0;
    for (const PlannedBuffer& buffer : plan.buffers) {
      if (buffer.region != static_cast<MemoryClass>(c) || buffer.life.bytes == 0) continue;
      ++buffers;
      sum += buffer.life.bytes;
    }
    if (buffers == 0) continue;
    const MemoryRegion& region = plan.regions[c];
    row(memory_class_name(static_cast<MemoryClass>(c)), buffers, sum, region.live_bytes_max, region.bytes,
        region.order);
    buffers_all += buffers;
    sum_all += sum;
  }
  row("all", buffers_all, sum_all, plan.live_bytes_max, plan.arena_bytes, "");
  for (size_t c = 0; c < kMemoryClasses; ++c)
    if (plan.regions[c].bound_bytes > 0)
      text += fmt::format("and {} of {} outside the pool\n", format_bytes(plan.regions[c].bound_bytes),
                          memory_class_name(static_cast<MemoryClass>(c)));

  const size_t peak = fullest_step(live_bytes(graph, plan));
  std::vector<const PlannedBuffer*> largest;
  for (const PlannedBuffer& buffer : plan.buffers)
    if (buffer.life.bytes > 0 && buffer.life.first <= peak && peak <= buffer.life.last)
      largest.push_back(&buffer);
  std::stable_sort(largest.begin(), largest.end(), [](const PlannedBuffer* a, const PlannedBuffer* b) {
    return a->life.bytes > b->life.bytes;
  });
  text += fmt::format("fullest at step {} ({}); the largest of {} buffers there:\n", peak,
                      peak < graph.nodes().size() ? graph.nodes()[peak].name : "the end", largest.size());
  for (size_t i = 0; i < std::min<size_t>(largest.size(), 5); ++i)
    text +=
        fmt::format("  {:>10}  {}\n", format_bytes(largest[i]->life.bytes), buffer_name(graph, *largest[i]));
  return text;
}

std::string memory_picture(const Graph& graph, const MemoryPlan& plan, std::string_view title) {
  const std::vector<size_t> live = live_bytes(graph, plan);
  const std::vector<std::string> kinds = kinds_by_area(graph, plan);
  const double steps = static_cast<double>(live.size());
  const double bytes = std::max(1.0, static_cast<double>(plan.arena_bytes));
  const auto buffers = std::count_if(plan.buffers.begin(), plan.buffers.end(),
                                     [](const PlannedBuffer& buffer) { return buffer.life.bytes > 0; });
  const Frame above{80, 76, 880, 120, steps, bytes};
  const Frame below{80, 246, 880, 420, steps, bytes};
  const Legend legend(kinds, below.left, below.left + below.width);
  const double legend_top = below.top + below.height + 46;
  Svg svg(1000, legend_top + legend.height() + 12);
  svg.text(80, 26, title, 16, "start", "#222", "font-weight:bold");
  svg.text(80, 45,
           fmt::format("pool {}, LOAD {} ({:.4f}), {} buffers, {} steps", format_bytes(plan.arena_bytes),
                       format_bytes(plan.live_bytes_max),
                       plan.live_bytes_max == 0
                           ? 1.0
                           : static_cast<double>(plan.arena_bytes) / static_cast<double>(plan.live_bytes_max),
                       buffers, graph.nodes().size()),
           12, "start", "#666");
  draw_axes(svg, above, "live bytes by step (dashed: LOAD)");
  draw_live(svg, above, live, plan);
  draw_axes(svg, below, "buffers: steps across, addresses up");
  draw_buffers(svg, below, graph, plan, kinds);
  for (const MemoryRegion& region : plan.regions)
    if (region.offset > 0 && region.bytes > 0)
      svg.line(below.left, below.y(static_cast<double>(region.offset)), below.left + below.width,
               below.y(static_cast<double>(region.offset)), "#222", 0.7);
  draw_steps(svg, below);
  legend.draw(svg, legend_top);
  return svg.finish();
}

}  // namespace butterfly::graph
