#include "base/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <span>

namespace butterfly {
namespace {

// The value in the largest unit that leaves at least 1, with three significant digits.
std::string scaled(double value, double step, std::span<const std::string_view> units) {
  size_t unit = 0;
  // 999.5 would print as 1000, so it goes one unit up.
  while (unit + 1 < units.size() && value >= (step == 1000 ? 999.5 : step - 0.5)) {
    value /= step;
    ++unit;
  }
  const std::string number = unit == 0        ? fmt::format("{:.0f}", value)
                             : value >= 99.95 ? fmt::format("{:.0f}", value)
                             : value >= 9.995 ? fmt::format("{:.1f}", value)
                                              : fmt::format("{:.2f}", value);
  return units[unit].empty() ? number : fmt::format("{} {}", number, units[unit]);
}

constexpr std::array<std::string_view, 7> kByteUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
constexpr std::array<std::string_view, 6> kCountUnits = {"", "k", "M", "B", "T", "Q"};
constexpr std::array<std::string_view, 4> kTimeUnits = {"ns", "us", "ms", "s"};

Result<uint64_t> not_bytes(std::string_view text) {
  return {Errc::kInvalidArgument,
          fmt::format("'{}' is not a number of bytes; write for example 4096, 64K, 1.5GiB or 2GB", text)};
}

// The factor of "", "k", "KiB", "kb" ...; 0 if it is no unit.
uint64_t factor_of(std::string_view unit) {
  std::string name;
  for (const char c : unit) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (name.empty() || name == "B") return 1;
  const size_t power = std::string_view("KMGTPE").find(name[0]);
  if (power == std::string_view::npos) return 0;
  const std::string_view rest = std::string_view(name).substr(1);
  if (!rest.empty() && rest != "IB" && rest != "B") return 0;
  uint64_t factor = 1;
  for (size_t i = 0; i <= power; ++i) factor *= rest == "B" ? 1000 : 1024;
  return factor;
}

}  // namespace

std::string format_bytes(uint64_t bytes) { return scaled(static_cast<double>(bytes), 1024, kByteUnits); }

std::string format_count(uint64_t count) { return scaled(static_cast<double>(count), 1000, kCountUnits); }

std::string format_duration(std::chrono::nanoseconds duration) {
  const int64_t ns = duration.count();
  if (ns < 0) return "-" + format_duration(std::chrono::nanoseconds(ns == INT64_MIN ? INT64_MAX : -ns));
  const int64_t seconds = ns / 1'000'000'000;
  if (seconds >= 3600) return fmt::format("{} h {:02} min", seconds / 3600, seconds / 60 % 60);
  if (seconds >= 60) return fmt::format("{} min {:02} s", seconds / 60, seconds % 60);
  return scaled(static_cast<double>(ns), 1000, kTimeUnits);
}

Result<uint64_t> parse_bytes(std::string_view text) {
  std::string_view rest = text;
  uint64_t whole = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), whole);
  if (error != std::errc()) return not_bytes(text);
  rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  // Digits after the point, exact: up to 18 of them.
  uint64_t fraction = 0, fraction_of = 1;
  if (!rest.empty() && rest[0] == '.') {
    rest.remove_prefix(1);
    if (rest.empty() || std::isdigit(static_cast<unsigned char>(rest[0])) == 0) return not_bytes(text);
    while (!rest.empty() && std::isdigit(static_cast<unsigned char>(rest[0])) != 0) {
      if (fraction_of >= 1'000'000'000'000'000'000) return not_bytes(text);
      fraction = fraction * 10 + static_cast<uint64_t>(rest[0] - '0');
      fraction_of *= 10;
      rest.remove_prefix(1);
    }
  }
  while (!rest.empty() && rest[0] == ' ') rest.remove_prefix(1);
  const uint64_t factor = factor_of(rest);
  if (factor == 0 || (factor == 1 && fraction != 0)) return not_bytes(text);
  __extension__ using Wide = unsigned __int128;
  const Wide bytes = Wide{whole} * factor + Wide{fraction} * factor / fraction_of;
  if (bytes > UINT64_MAX) return not_bytes(text);
  return static_cast<uint64_t>(bytes);
}

}  // namespace butterfly
