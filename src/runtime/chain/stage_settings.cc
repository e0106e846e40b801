#include "runtime/chain/stage_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>

#include "tensor/dtype.h"

namespace butterfly::runtime {
namespace {

// Names and bounds of the numbers, in the order in which they are written.
struct NumberField {
  const char* name;
  size_t StageSettings::*member;
  size_t min, max;
};
constexpr NumberField kNumbers[] = {
    {"context", &StageSettings::context, 1, 1 << 24},
    {"positions", &StageSettings::positions, 1, 1 << 28},
    {"sequences", &StageSettings::sequences, 1, 1024},
    {"rows", &StageSettings::rows_max, 1, 4096},
    {"kept", &StageSettings::kept_bytes, 0, StageSettings::kKeptBytesMax},
};

bool known_wire(const std::string& name) {
  return std::ranges::any_of(row_formats(), [&](const RowFormat& format) { return format.name == name; });
}

// "64 digits:8 digits", both hexadecimal.
std::optional<StageAdapter> read_adapter(const std::string& word) {
  constexpr size_t kIdDigits = 64, kScaleDigits = 8;
  if (word.size() != kIdDigits + 1 + kScaleDigits || word.find(':') != kIdDigits) return std::nullopt;
  if (word.find_first_not_of("0123456789abcdef:") != std::string::npos) return std::nullopt;
  uint32_t bits = 0;
  const char* const from = word.data() + kIdDigits + 1;
  const auto [end, error] = std::from_chars(from, from + kScaleDigits, bits, 16);
  const auto scale = std::bit_cast<float>(bits);
  if (error != std::errc() || end != from + kScaleDigits || !std::isfinite(scale)) return std::nullopt;
  return StageAdapter{word.substr(0, kIdDigits), scale};
}

}  // namespace

std::string StageSettings::text() const {
  std::string out;
  for (const NumberField& field : kNumbers) out += fmt::format("{}={} ", field.name, this->*field.member);
  out += fmt::format("cache={} wire={}", dtype_name(kv_type), wire);
  // The bits of the scale: all stages have the same number.
  for (const StageAdapter& adapter : adapters)
    out += fmt::format(" adapter={}:{:08x}", adapter.id, std::bit_cast<uint32_t>(adapter.scale));
  return out;
}

Result<StageSettings> StageSettings::parse(const std::string& text) {
  StageSettings settings;
  std::istringstream in(text);
  const auto value_of = [&](const std::string& name) {
    std::string word;
    in >> word;
    return word.starts_with(name + "=") ? word.substr(name.size() + 1) : std::string();
  };
  const auto wrong = [&](const char* name) {
    return Status(Errc::kCorrupt,
                  fmt::format("settings of a stage: {} is missing or out of range in '{:.200}'", name, text));
  };
  for (const NumberField& field : kNumbers) {
    const std::string word = value_of(field.name);
    size_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size() || number < field.min || number > field.max)
      return wrong(field.name);
    settings.*field.member = number;
  }
  const auto type = dtype_by_name(value_of("cache"));
  if (!type || (*type != DType::kF16 && *type != DType::kF32 && *type != DType::kQ8_0)) return wrong("cache");
  settings.kv_type = *type;
  settings.wire = value_of("wire");
  if (!known_wire(settings.wire)) return wrong("wire");
  for (std::string word = value_of("adapter"); !word.empty(); word = value_of("adapter")) {
    const auto adapter = read_adapter(word);
    if (!adapter || settings.adapters.size() == kAdaptersMax) return wrong("adapter");
    settings.adapters.push_back(*adapter);
  }
  if (settings.text() != text) return wrong("the end");
  return settings;
}

ChainOptions StageSettings::chain_options() const {
  ChainOptions options;
  options.cache = {.positions = positions,
                   .sequences = sequences,
                   .kv_type = kv_type,
                   .rows_max = rows_max,
                   .cut_windows = kept_bytes == 0};
  options.format = &find_row_format(wire);
  return options;
}

}  // namespace butterfly::runtime
