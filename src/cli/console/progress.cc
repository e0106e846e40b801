#include "cli/console/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/units.h"
#include "cli/console/terminal.h"

namespace butterfly::cli {
namespace {

constexpr size_t kBarWidth = 20;
constexpr double kLongest = 1e9;  // seconds; a longer ETA says nothing
constexpr auto kDrawInterval = std::chrono::milliseconds(100);

std::string rate_text(double per_second, ProgressUnit unit) {
  if (unit == ProgressUnit::kBytes) return format_bytes(static_cast<uint64_t>(per_second)) + "/s";
  return fmt::format("{:.{}f}/s", per_second, per_second < 10 ? 1 : 0);
}

}  // namespace

std::string time_left_text(double seconds) {
  const std::chrono::seconds left(std::llround(std::min(std::ceil(seconds), kLongest)));
  return left.count() < 60 ? fmt::format("{} s", left.count()) : format_duration(left);
}

std::string progress_line(std::string_view label, uint64_t done, uint64_t total, double seconds,
                          ProgressUnit unit, size_t width) {
  std::string line(label);
  const double share = total == 0 ? 0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  if (total != 0) {
    const auto filled = static_cast<size_t>(share * kBarWidth);
    line += fmt::format("  [{}{}] {:3d}%", std::string(filled, '#'), std::string(kBarWidth - filled, '-'),
                        static_cast<int>(share * 100));
  } else {
    line += "  " + (unit == ProgressUnit::kBytes ? format_bytes(done) : fmt::format("{}", done));
  }
  if (seconds > 0 && done > 0) {
    const double per_second = static_cast<double>(done) / seconds;
    line += "  " + rate_text(per_second, unit);
    if (total > done) line += "  ETA " + time_left_text(static_cast<double>(total - done) / per_second);
  }
  if (line.size() > width) line.resize(width);
  return line;
}

Progress::Progress(std::string label, uint64_t total, ProgressUnit unit)
    : label_(std::move(label)),
      total_(total),
      unit_(unit),
      visible_(is_terminal(STDERR_FILENO)),
      started_(Clock::now()),
      next_draw_(started_ + kDrawInterval) {}

Progress::~Progress() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
}

void Progress::update(uint64_t done) {
  if (!visible_) return;
  const auto now = Clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + kDrawInterval;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - started_).count();
  // One column is left free: a full line would wrap and could not be erased.
  const size_t width = terminal_width(STDERR_FILENO) - 1;
  fmt::print(stderr, "\r\033[K{}", progress_line(label_, done, total_, seconds, unit_, width));
  std::fflush(stderr);
}

}  // namespace butterfly::cli
