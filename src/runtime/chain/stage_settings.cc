#include "runtime/chain/stage_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
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

}  // namespace

std::string StageSettings::text() const {
  std::string out;
  for (const NumberField& field : kNumbers) out += fmt::format("{}={} ", field.name, this->*field.member);
  return out + fmt::format("cache={} wire={}", dtype_name(kv_type), wire);
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
