// What the program tells its operator: leveled lines on stderr, as text or JSON. stdout stays free for
// results.
#pragma once
#include <fmt/core.h>

#include <optional>
#include <string_view>
#include <utility>

namespace butterfly {

enum class LogLevel { kDebug, kInfo, kWarn, kError, kOff };
enum class LogFormat {
  kText,  // 12:34:56.789 warning model.gguf: no chat template
  kJson,  // {"time":"2024-05-06T12:34:56.789+00:00","level":"warning","text":"model.gguf: no chat template"}
};

// Process-wide, from any thread. At start: kInfo, kText.
void set_log_level(LogLevel level);
void set_log_format(LogFormat format);
LogLevel log_level();
// "debug", "info", "warn" or "warning", "error", "off".
std::optional<LogLevel> log_level_by_name(std::string_view name);

// One event is one line, whatever the text holds: control characters are escaped. Thread-safe, never throws.
// Lines below the level cost one comparison; arguments are not formatted.
bool log_enabled(LogLevel level);
void log_line(LogLevel level, fmt::string_view format, fmt::format_args args) noexcept;

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kDebug)) log_line(LogLevel::kDebug, format, fmt::make_format_args(args...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kInfo)) log_line(LogLevel::kInfo, format, fmt::make_format_args(args...));
}
template <typename... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kWarn)) log_line(LogLevel::kWarn, format, fmt::make_format_args(args...));
}
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kError)) log_line(LogLevel::kError, format, fmt::make_format_args(args...));
}

}  // namespace butterfly
