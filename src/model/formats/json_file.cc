#include "model/formats/json_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json_text.h"
#include "base/mapped_file.h"
#include "base/printable.h"
#include "model/formats/byte_reader.h"

namespace butterfly::model {

using Json = nlohmann::json;

std::string read_text_file(const std::filesystem::path& path) {
  const auto mapping = MappedFile::open(path);
  ByteReader in(mapping->bytes(), path.string());
  in.set_place("text");
  if (in.remaining() > kJsonFileBytesMax)
    in.corrupt("expected at most {} bytes, found {}", kJsonFileBytesMax, in.remaining());
  return in.read_string(in.remaining(), "file");
}

namespace {

// Levels of arrays and objects inside each other. A pass of its own, before the parser builds anything.
int nesting_depth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      i += c == '\\';
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& file) {
  if (nesting_depth(text) > kJsonDepthMax)
    fail(Errc::kCorrupt, "{}: expected at most {} levels inside each other, found more", file, kJsonDepthMax);
  try {
    return json_of_text<Json>(text);
  } catch (const Json::exception& error) {
    fail(Errc::kCorrupt, "{}: expected JSON, found {}", file, printable(error.what(), 200));
  }
}

JsonObject::JsonObject(const Json& json, std::string file, std::string place)
    : json_(&json), file_(std::move(file)), place_(std::move(place)) {
  if (!json.is_object())
    fail(Errc::kCorrupt, "{}: {}expected an object, found {}", file_, place_, json.type_name());
}

const Json* JsonObject::find(std::string_view key) const {
  const auto at = json_->find(std::string(key));
  return at == json_->end() || at->is_null() ? nullptr : &*at;
}

std::optional<JsonObject> JsonObject::object(std::string_view key) const {
  const Json* found = find(key);
  if (!found) return std::nullopt;
  return JsonObject(*found, file_, fmt::format("{}{}: ", place_, key));
}

const Json& JsonObject::get(std::string_view key, std::string_view expected) const {
  const Json* found = find(key);
  if (!found)
    fail(Errc::kNotFound, "{}: {}key {}: expected {}, found no such key", file_, place_, key, expected);
  return *found;
}

void JsonObject::mismatch(std::string_view key, std::string_view expected) const {
  const Json* found = find(key);
  fail(Errc::kCorrupt, "{}: {}key {}: expected {}, found {}", file_, place_, key, expected,
       found ? printable(found->dump(-1, ' ', false, Json::error_handler_t::replace), 60) : "none");
}

uint32_t JsonObject::u32(std::string_view key) const {
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  const Json& value = get(key, "a whole number");
  const bool whole = value.is_number_unsigned() || (value.is_number_integer() && value.get<int64_t>() >= 0);
  if (whole && value.get<uint64_t>() <= kMost) return value.get<uint32_t>();
  // Some writers make every number a float.
  if (value.is_number_float() && value.get<double>() >= 0 && value.get<double>() <= double{kMost} &&
      value.get<double>() == std::floor(value.get<double>()))
    return static_cast<uint32_t>(value.get<double>());
  mismatch(key, "a whole number from 0 to 2^32 - 1");
}

double JsonObject::number(std::string_view key) const {
  const Json& value = get(key, "a number");
  if (!value.is_number()) mismatch(key, "a number");
  return value.get<double>();
}

bool JsonObject::boolean_or(std::string_view key, bool otherwise) const {
  const Json* found = find(key);
  if (!found) return otherwise;
  if (!found->is_boolean()) mismatch(key, "true or false");
  return found->get<bool>();
}

std::string JsonObject::string(std::string_view key) const {
  const Json& value = get(key, "a string");
  if (!value.is_string()) mismatch(key, "a string");
  return value.get<std::string>();
}

std::string JsonObject::string_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? string(key) : std::string(otherwise);
}

std::vector<float> JsonObject::numbers(std::string_view key) const {
  const Json& value = get(key, "numbers");
  if (!value.is_array()) mismatch(key, "an array of numbers");
  std::vector<float> numbers;
  for (const Json& item : value) {
    if (!item.is_number()) mismatch(key, "an array of numbers");
    numbers.push_back(static_cast<float>(item.get<double>()));
  }
  return numbers;
}

std::vector<std::string> JsonObject::strings(std::string_view key) const {
  const Json& value = get(key, "strings");
  if (!value.is_array()) mismatch(key, "an array of strings");
  std::vector<std::string> strings;
  for (const Json& item : value) {
    if (!item.is_string()) mismatch(key, "an array of strings");
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

}  // namespace butterfly::model
