#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/utf8.h"

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

// Characters that are not ASCII and that a terminal or an editor obeys instead of showing: the C1 controls
// (U+009B begins what ESC [ begins), line separators, and marks that turn the order of writing.
bool is_obeyed(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 2) return byte(0) == 0xc2 && byte(1) < 0xa0;
  if (character.size() != 3 || byte(0) != 0xe2) return false;
  return (byte(1) == 0x80 && byte(2) >= 0xa8 && byte(2) <= 0xae) ||  // U+2028 to U+202E
         (byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9);    // U+2066 to U+2069
}

// Text stays readable: only what is no text to be seen changes. `escape` writes bytes otherwise.
template <typename Escape>
std::string shown(std::string_view text, Escape escape) {
  std::string line;
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, std::max<size_t>(length, 1));
    const auto byte = static_cast<unsigned char>(character.front());
    if (length == 0 || (byte < 0x20 && byte != '\t') || byte == 0x7f || is_obeyed(character)) {
      escape(line, character);
    } else {
      line += character;
    }
    text.remove_prefix(character.size());
  }
  return line;
}

std::string one_line(const std::string& text) {
  return shown(text, [](std::string& line, std::string_view character) {
    if (character == "\n") {
      line += "\\n";
      return;
    }
    for (const char c : character) line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  });
}

// As inside a JSON string, without the quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_escaped(const std::string& text) {
  const std::string quoted =
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return shown(std::string_view(quoted).substr(1, quoted.size() - 2),
               [](std::string& line, std::string_view character) {
                 const auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
                 unsigned code = byte(0);
                 if (character.size() == 2) code = (byte(0) & 0x1fu) << 6 | (byte(1) & 0x3fu);
                 if (character.size() == 3)
                   code = (byte(0) & 0xfu) << 12 | (byte(1) & 0x3fu) << 6 | (byte(2) & 0x3fu);
                 line += fmt::format("\\u{:04x}", code);
               });
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
