#include "model/metadata/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace butterfly::model {
namespace {

constexpr std::string_view kTypeNames[kMetaTypeCount] = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

template <typename T>
inline constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

// The value as To, or nothing if it is not an integer or does not fit.
template <typename To>
std::optional<To> as_integer(const MetaValue& value) {
  return std::visit(
      [](const auto& held) -> std::optional<To> {
        using From = std::decay_t<decltype(held)>;
        if constexpr (kIsInteger<From>) {
          if (std::in_range<To>(held)) return static_cast<To>(held);
        }
        return std::nullopt;
      },
      value);
}

// Text from a file as it may be shown: what a terminal would obey or cannot show becomes \xNN. New lines and
// tabs stay.
std::string safe_text(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::max<size_t>(utf8_length(text.substr(at)), 1);
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool layout = byte == '\n' || byte == '\t';
    const bool control = (byte < 0x20 && !layout) || byte == 0x7f || (length == 1 && byte >= 0x80) ||
                         (length == 2 && byte == 0xc2 && static_cast<unsigned char>(text[at + 1]) < 0xa0);
    for (size_t i = 0; i < length; ++i) {
      if (control)
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at + i]));
      else
        result += text[at + i];
    }
    at += length;
  }
  return result;
}

// In quotes, on one line, cut when long.
std::string in_quotes(std::string_view text) {
  constexpr size_t kShown = 60;
  std::string result = "\"";
  for (const char c : safe_text(text.substr(0, kShown))) {
    if (c == '\n')
      result += "\\n";
    else if (c == '\t')
      result += "\\t";
    else if (c == '"')
      result += "\\\"";
    else
      result += c;
  }
  return result + (text.size() > kShown ? "...\"" : "\"");
}

template <typename T>
std::string item_text(const T& item, bool as_bool) {
  if constexpr (std::is_same_v<T, std::string>) {
    return in_quotes(item);
  } else if constexpr (std::is_same_v<T, MetaArray>) {
    return fmt::format("[{} of {}]", item.size(), meta_type_name(item.type));
  } else {
    if (as_bool) return item != 0 ? "true" : "false";
    return fmt::format("{}", item);
  }
}

}  // namespace

std::string_view meta_type_name(MetaType type) {
  const auto index = static_cast<uint32_t>(type);
  return index < kMetaTypeCount ? kTypeNames[index] : "unknown";
}

size_t MetaArray::size() const {
  return std::visit([](const auto& vector) { return vector.size(); }, elements);
}

MetaArray string_array(std::vector<std::string> values) { return {MetaType::kString, std::move(values)}; }
MetaArray f32_array(std::vector<float> values) { return {MetaType::kF32, std::move(values)}; }
MetaArray i32_array(std::vector<int32_t> values) { return {MetaType::kI32, std::move(values)}; }
MetaArray bool_array(std::vector<uint8_t> values) { return {MetaType::kBool, std::move(values)}; }

std::string meta_type_text(const MetaValue& value) {
  if (const auto* array = std::get_if<MetaArray>(&value))
    return fmt::format("array of {}", meta_type_name(array->type));
  return std::string(meta_type_name(meta_type(value)));
}

std::string meta_text(const MetaValue& value, size_t items_max) {
  if (const auto* text = std::get_if<std::string>(&value)) return safe_text(*text);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* array = std::get_if<MetaArray>(&value)) {
    return std::visit(
        [&](const auto& vector) {
          std::string text = "[";
          for (size_t i = 0; i < vector.size() && i < items_max; ++i)
            text += (i ? ", " : "") + item_text(vector[i], array->type == MetaType::kBool);
          if (vector.size() > items_max)
            text += fmt::format("{}... {} in all", items_max ? ", " : "", vector.size());
          return text + "]";
        },
        array->elements);
  }
  return std::visit(
      [](const auto& held) -> std::string {
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(held)>>) return fmt::format("{}", held);
        return {};
      },
      value);
}

void Metadata::add(std::string key, MetaValue value) {
  if (index_.count(key)) fail(Errc::kCorrupt, "{}: key {}: expected once, found twice", source_, key);
  set(std::move(key), std::move(value));
}

void Metadata::set(std::string key, MetaValue value) {
  const auto [at, fresh] = index_.try_emplace(key, entries_.size());
  if (fresh)
    entries_.push_back({std::move(key), std::move(value)});
  else
    entries_[at->second].value = std::move(value);
}

const MetaValue* Metadata::find(std::string_view key) const {
  const auto at = index_.find(std::string(key));
  return at == index_.end() ? nullptr : &entries_[at->second].value;
}

const MetaValue& Metadata::get(std::string_view key, std::string_view expected) const {
  const MetaValue* value = find(key);
  if (!value) fail(Errc::kNotFound, "{}: key {}: expected {}, found no such key", source_, key, expected);
  return *value;
}

void Metadata::mismatch(std::string_view key, std::string_view expected, const MetaValue& found) const {
  const bool number =
      !std::holds_alternative<std::string>(found) && !std::holds_alternative<MetaArray>(found);
  fail(Errc::kCorrupt, "{}: key {}: expected {}, found {}{}", source_, key, expected, meta_type_text(found),
       number ? " " + meta_text(found) : std::string());
}

uint32_t Metadata::u32(std::string_view key) const {
  const MetaValue& value = get(key, "u32");
  if (const auto integer = as_integer<uint32_t>(value)) return *integer;
  mismatch(key, "u32", value);
}

uint64_t Metadata::u64(std::string_view key) const {
  const MetaValue& value = get(key, "u64");
  if (const auto integer = as_integer<uint64_t>(value)) return *integer;
  mismatch(key, "u64", value);
}

float Metadata::f32(std::string_view key) const {
  const MetaValue& value = get(key, "f32");
  if (const auto* single = std::get_if<float>(&value)) return *single;
  if (const auto* wide = std::get_if<double>(&value)) return static_cast<float>(*wide);
  mismatch(key, "f32", value);
}

bool Metadata::boolean(std::string_view key) const {
  const MetaValue& value = get(key, "bool");
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  mismatch(key, "bool", value);
}

const std::string& Metadata::string(std::string_view key) const {
  const MetaValue& value = get(key, "string");
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  mismatch(key, "string", value);
}

uint32_t Metadata::u32_or(std::string_view key, uint32_t otherwise) const {
  return has(key) ? u32(key) : otherwise;
}
uint64_t Metadata::u64_or(std::string_view key, uint64_t otherwise) const {
  return has(key) ? u64(key) : otherwise;
}
float Metadata::f32_or(std::string_view key, float otherwise) const {
  return has(key) ? f32(key) : otherwise;
}
bool Metadata::boolean_or(std::string_view key, bool otherwise) const {
  return has(key) ? boolean(key) : otherwise;
}
std::string Metadata::string_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? string(key) : std::string(otherwise);
}

const MetaArray& Metadata::array(std::string_view key, std::string_view expected) const {
  const MetaValue& value = get(key, expected);
  if (const auto* found = std::get_if<MetaArray>(&value)) return *found;
  mismatch(key, expected, value);
}

std::span<const std::string> Metadata::strings(std::string_view key) const {
  const MetaArray& found = array(key, "array of string");
  if (const auto* vector = std::get_if<std::vector<std::string>>(&found.elements)) return *vector;
  mismatch(key, "array of string", *find(key));
}

std::vector<float> Metadata::f32s(std::string_view key) const {
  const MetaArray& found = array(key, "array of f32");
  if (const auto* vector = std::get_if<std::vector<float>>(&found.elements)) return *vector;
  if (const auto* wide = std::get_if<std::vector<double>>(&found.elements)) {
    std::vector<float> values(wide->size());
    std::transform(wide->begin(), wide->end(), values.begin(),
                   [](double v) { return static_cast<float>(v); });
    return values;
  }
  mismatch(key, "array of f32", *find(key));
}

std::vector<int32_t> Metadata::i32s(std::string_view key) const {
  const MetaArray& found = array(key, "array of i32");
  if (found.type == MetaType::kBool) mismatch(key, "array of i32", *find(key));
  return std::visit(
      [&](const auto& vector) -> std::vector<int32_t> {
        using T = typename std::decay_t<decltype(vector)>::value_type;
        if constexpr (kIsInteger<T>) {
          std::vector<int32_t> values(vector.size());
          for (size_t i = 0; i < vector.size(); ++i) {
            if (!std::in_range<int32_t>(vector[i]))
              fail(Errc::kCorrupt, "{}: key {}: expected i32, found {} at index {}", source_, key, vector[i],
                   i);
            values[i] = static_cast<int32_t>(vector[i]);
          }
          return values;
        } else {
          mismatch(key, "array of i32", *find(key));
        }
      },
      found.elements);
}

}  // namespace butterfly::model
