#include "server/api/fields.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "server/api/api_error.h"

namespace butterfly::server {
namespace {

// Short enough for a message, whatever was sent.
std::string shown(const Json& value) {
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  if (value.is_object()) return fmt::format("an object of {} keys", value.size());
  std::string text = to_text(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

std::string bound_words(const FieldRow& row) {
  if (row.type == FieldType::kBoolean || row.type == FieldType::kAny) return {};
  const auto words = [](double value) {
    return value == std::floor(value) && std::abs(value) < 1e15 ? fmt::format("{:.0f}", value)
                                                                : fmt::format("{}", value);
  };
  const bool low = std::isfinite(row.min), high = std::isfinite(row.max);
  if (low && high) return fmt::format("{} to {}", words(row.min), words(row.max));
  if (low) return fmt::format("at least {}", words(row.min));
  if (high) return fmt::format("at most {}", words(row.max));
  return {};
}

}  // namespace

std::string_view field_type_name(FieldType type) {
  switch (type) {
    case FieldType::kBoolean:
      return "boolean";
    case FieldType::kInteger:
      return "integer";
    case FieldType::kNumber:
      return "number";
    case FieldType::kString:
      return "string";
    case FieldType::kStrings:
      return "string or strings";
    case FieldType::kArray:
      return "array";
    case FieldType::kObject:
      return "object";
    case FieldType::kAny:
      return "any";
  }
  return "any";
}

const FieldRow* FieldTable::find(std::string_view field) const {
  for (const auto rows : {own, shared})
    for (const FieldRow& row : rows)
      if (row.name == field) return &row;
  return nullptr;
}

std::string fields_manual() {
  std::string out;
  const auto add = [&](const FieldRow& row) {
    std::string bounds = bound_words(row);
    const bool by_size = row.type >= FieldType::kString;
    if (by_size && !bounds.empty())
      bounds += row.type == FieldType::kString   ? " bytes"
                : row.type == FieldType::kObject ? " keys"
                                                 : " elements";
    std::string fallback(row.fallback);
    if (!fallback.empty() && fallback != "required") fallback = "`" + fallback + "`";
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n", row.name, field_type_name(row.type), bounds,
                       fallback, row.help);
  };
  const char* head = "| Field | Type | Bounds | Default | Meaning |\n| --- | --- | --- | --- | --- |\n";
  std::span<const FieldRow> shared;
  for (const FieldTable* table : field_tables()) {
    out += fmt::format("\n**{}**{}\n\n{}", table->name,
                       table->shared.empty() ? "" : ", and the fields of sampling below", head);
    for (const FieldRow& row : table->own) add(row);
    if (!table->shared.empty()) shared = table->shared;
  }
  out += fmt::format("\n**Sampling**\n\n{}", head);
  for (const FieldRow& row : shared) add(row);
  return out;
}

Fields::Fields(const Json& body, const FieldTable& table, std::string prefix)
    : body_(body), table_(table), prefix_(std::move(prefix)) {
  if (!body.is_object()) bad_field({}, fmt::format("expected a JSON object, found {}", shown(body)));
  for (const auto& [key, value] : body.items())
    if (const FieldRow* row = table.find(key); row != nullptr && !value.is_null()) check(*row, value);
  for (const FieldRow& row : table.own)
    if (row.fallback == "required" && find(row.name) == nullptr)
      bad_field(prefix_ + std::string(row.name), "is missing", "missing_required_parameter");
}

void Fields::check(const FieldRow& row, const Json& value) const {
  const std::string name = prefix_ + std::string(row.name);
  const auto wrong_type = [&] {
    bad_field(name, fmt::format("expected {}, found {}", field_type_name(row.type), shown(value)),
              "invalid_type");
  };
  double measure = 0;
  switch (row.type) {
    case FieldType::kBoolean:
      if (!value.is_boolean()) wrong_type();
      return;
    case FieldType::kInteger:
      // 1.0 is an integer: some languages have no other numbers.
      if (!value.is_number() ||
          (value.is_number_float() && value.get<double>() != std::floor(value.get<double>())))
        wrong_type();
      measure = value.get<double>();
      break;
    case FieldType::kNumber:
      if (!value.is_number()) wrong_type();
      measure = value.get<double>();
      break;
    case FieldType::kString:
      if (!value.is_string()) wrong_type();
      measure = static_cast<double>(value.get_ref<const std::string&>().size());
      break;
    case FieldType::kStrings:
      if (value.is_array()) {
        for (const Json& element : value)
          if (!element.is_string()) wrong_type();
        measure = static_cast<double>(value.size());
      } else if (!value.is_string()) {
        wrong_type();
      } else {
        measure = 1;
      }
      break;
    case FieldType::kArray:
      if (!value.is_array()) wrong_type();
      measure = static_cast<double>(value.size());
      break;
    case FieldType::kObject:
      if (!value.is_object()) wrong_type();
      measure = static_cast<double>(value.size());
      break;
    case FieldType::kAny:
      return;
  }
  if (!(measure >= row.min && measure <= row.max)) {
    const bool sized = row.type >= FieldType::kString;
    if (sized && row.max == 0) bad_field(name, std::string(row.help), "unsupported_value");
    bad_field(name,
              fmt::format("expected {}{}, found {}", sized ? "a size of " : "", bound_words(row),
                          sized ? fmt::format("{:.0f}", measure) : shown(value)),
              measure < row.min ? "below_min_value" : "above_max_value");
  }
}

const FieldRow& Fields::row(std::string_view name) const {
  const FieldRow* found = table_.find(name);
  BF_CHECK(found != nullptr) << "no row for field " << name << " of " << table_.name;
  return *found;
}

const Json* Fields::find(std::string_view name) const {
  row(name);
  const auto it = body_.find(name);
  return it == body_.end() || it->is_null() ? nullptr : &*it;
}

bool Fields::boolean(std::string_view name) const {
  const Json* value = find(name);
  return value != nullptr ? value->get<bool>() : row(name).fallback == "true";
}

std::optional<int64_t> Fields::maybe_integer(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  return value->is_number_float() ? static_cast<int64_t>(value->get<double>()) : value->get<int64_t>();
}

int64_t Fields::integer(std::string_view name) const {
  if (const auto value = maybe_integer(name)) return *value;
  return std::stoll(std::string(row(name).fallback));
}

double Fields::number(std::string_view name) const {
  const Json* value = find(name);
  return value != nullptr ? value->get<double>() : std::stod(std::string(row(name).fallback));
}

std::string Fields::string(std::string_view name) const {
  const Json* value = find(name);
  if (value != nullptr) return value->get<std::string>();
  const std::string_view fallback = row(name).fallback;
  return fallback.size() >= 2 && fallback.front() == '"'
             ? std::string(fallback.substr(1, fallback.size() - 2))
             : std::string();
}

std::vector<std::string> Fields::strings(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  return value->get<std::vector<std::string>>();
}

}  // namespace butterfly::server
