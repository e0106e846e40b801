#include "cli/format.h"

#include <fmt/core.h>

#include <cmath>

namespace butterfly::cli {
namespace {

// One decimal in the largest unit that leaves at least 1; a value that would round up to `step` takes the
// next unit.
template <size_t N>
std::string scaled(uint64_t value, double step, const char* const (&units)[N]) {
  auto scaled = static_cast<double>(value);
  size_t unit = 0;
  while (unit + 1 < N && std::round(scaled * 10) / 10 >= step) {
    scaled /= step;
    ++unit;
  }
  return unit == 0 ? fmt::format("{}{}", value, units[0]) : fmt::format("{:.1f}{}", scaled, units[unit]);
}

}  // namespace

std::string format_bytes(uint64_t bytes) {
  return scaled(bytes, 1024, {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"});
}

std::string format_count(uint64_t count) { return scaled(count, 1000, {"", " K", " M", " B", " T"}); }

std::string format_duration(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 60) {
    return seconds == std::floor(seconds) ? fmt::format("{:.0f} s", seconds)
                                          : fmt::format("{:.1f} s", seconds);
  }
  const auto whole = static_cast<uint64_t>(std::lround(seconds));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace butterfly::cli
