#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace butterfly {
namespace {

std::atomic<LogLevel> least{LogLevel::kInfo};
std::atomic<LogFormat> line_format{LogFormat::kText};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

// Never destroyed: destructors of other statics may still log.
spdlog::logger* make_logger(const char* pattern) {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();  // colours only on a terminal
  auto* logger = new spdlog::logger("butterfly", std::move(sink));
  logger->set_level(spdlog::level::trace);  // log_enabled() has decided already
  logger->flush_on(spdlog::level::trace);
  logger->set_pattern(pattern);
  return logger;
}

// One logger per format, so that changing the format never meets a line half-way.
spdlog::logger& text_logger() {
  static spdlog::logger* logger = make_logger("%H:%M:%S.%e %^%-7l%$ %v");
  return *logger;
}
spdlog::logger& json_logger() {
  static spdlog::logger* logger =
      make_logger(R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","text":"%v"})");
  return *logger;
}

// As inside a JSON string, without the quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_escaped(const std::string& text) {
  const std::string quoted =
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

// Text stays readable: only control characters change.
std::string one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      line += "\\n";
    } else if ((byte < 0x20 && c != '\t') || byte == 0x7f) {
      line += fmt::format("\\x{:02x}", byte);
    } else {
      line += c;
    }
  }
  return line;
}

}  // namespace

void set_log_level(LogLevel level) { least.store(level, std::memory_order_relaxed); }
void set_log_format(LogFormat format) { line_format.store(format, std::memory_order_relaxed); }
LogLevel log_level() { return least.load(std::memory_order_relaxed); }
bool log_enabled(LogLevel level) { return level >= log_level(); }

std::optional<LogLevel> log_level_by_name(std::string_view name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warn" || name == "warning") return LogLevel::kWarn;
  if (name == "error") return LogLevel::kError;
  if (name == "off") return LogLevel::kOff;
  return std::nullopt;
}

void log_line(LogLevel level, fmt::string_view format, fmt::format_args args) noexcept {
  try {
    const std::string text = fmt::vformat(format, args);
    if (line_format.load(std::memory_order_relaxed) == LogFormat::kJson) {
      json_logger().log(spdlog_level(level), spdlog::string_view_t(json_escaped(text)));
    } else {
      text_logger().log(spdlog_level(level), spdlog::string_view_t(one_line(text)));
    }
  } catch (...) {  // no memory for a line of log: the work itself goes on
  }
}

}  // namespace butterfly
