#include "server/generation/read_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/api/api_error.h"

namespace butterfly::server {
namespace {

Rules schema_rules(const Json& schema, const std::string& place) {
  if (!schema.is_object() && !schema.is_boolean()) bad_field(place, "expected a JSON schema");
  Rules rules{{}, place};
  rules.spec.kind = model::GrammarKind::kJsonSchema;
  rules.spec.text = to_text(schema);
  return rules;
}

Rules text_rules(model::GrammarKind kind, std::string text, const std::string& place) {
  Rules rules{{}, place};
  rules.spec.kind = kind;
  rules.spec.text = std::move(text);
  return rules;
}

// Some clients send schemas as text.
Rules guided_json(const Json& value, const std::string& place) {
  if (!value.is_string()) return schema_rules(value, place);
  try {
    return schema_rules(parse_json(value.get<std::string>()), place);
  } catch (const ApiError&) {
    bad_field(place, "expected a JSON schema, as an object or as its text");
  }
}

// One of these texts, as an expression.
Rules choice_rules(const std::vector<std::string>& choices, const std::string& place) {
  std::string expression;
  for (const std::string& choice : choices) {
    expression += expression.empty() ? "(?:" : "|";
    for (const char c : choice) {
      if (std::string_view("\\^$.|?*+()[]{}/").find(c) != std::string_view::npos) expression += '\\';
      expression += c;
    }
  }
  return text_rules(model::GrammarKind::kRegex, expression + ")", place);
}

std::optional<Rules> format_rules(const Json* format, const std::string& place) {
  if (format == nullptr) return std::nullopt;
  if (!format->is_object() || !format->contains("type") || !(*format)["type"].is_string())
    bad_field(place + ".type", "expected text, json_object or json_schema");
  const std::string type = (*format)["type"].get<std::string>();
  if (type == "text") return std::nullopt;
  if (type == "json_object") {
    // llama.cpp's addition: a schema beside it.
    if (format->contains("schema") && (*format)["schema"].is_object())
      return schema_rules((*format)["schema"], place);
    return Rules{{}, place};
  }
  if (type != "json_schema")
    bad_field(place + ".type", fmt::format("'{:.40}': expected text, json_object or json_schema", type));
  // Chat wraps the schema, responses does not.
  const Json& holder = format->contains("json_schema") ? (*format)["json_schema"] : *format;
  if (!holder.is_object() || !holder.contains("schema"))
    bad_field(place + ".json_schema.schema", "expected a JSON schema");
  // Every schema is kept to; without "strict" a client does not ask for it, and gets it all the same.
  if (holder.contains("strict") && !holder["strict"].is_boolean() && !holder["strict"].is_null())
    bad_field(place + ".json_schema.strict", "expected true or false");
  return schema_rules(holder["schema"], place);
}

std::optional<Rules> vllm_rules(const Json& object) {
  const std::string place = "structured_outputs";
  std::optional<Rules> rules;
  for (const auto& [key, value] : object.items()) {
    if (value.is_null() || key == "disable_fallback" || key == "disable_any_whitespace" ||
        key == "disable_additional_properties")
      continue;
    const std::string where = place + "." + key;
    if (rules) bad_field(where, "cannot stand beside " + rules->place);
    if (key == "json") {
      rules = guided_json(value, where);
    } else if (key == "json_object") {
      if (value == Json(true)) rules = Rules{{}, where};
    } else if ((key == "regex" || key == "grammar") && value.is_string()) {
      rules = text_rules(key == "regex" ? model::GrammarKind::kRegex : model::GrammarKind::kGbnf,
                         value.get<std::string>(), where);
    } else if (key == "choice" && value.is_array() && !value.empty() &&
               std::all_of(value.begin(), value.end(), [](const Json& v) { return v.is_string(); })) {
      rules = choice_rules(value.get<std::vector<std::string>>(), where);
    } else {
      bad_field(where, "expected one of json, json_object, regex, choice, grammar, with its value");
    }
  }
  return rules;
}

}  // namespace

std::optional<Rules> read_rules(const Fields& fields, const Json* format, const std::string& format_place) {
  using model::GrammarKind;
  std::optional<Rules> found = format_rules(format, format_place);
  const auto add = [&](std::optional<Rules> rules) {
    if (!rules) return;
    if (found) bad_field(rules->place, "cannot stand beside " + found->place);
    found = std::move(rules);
  };
  for (const char* name : {"grammar", "guided_grammar"})
    if (std::string text = fields.string(name); !text.empty())
      add(text_rules(GrammarKind::kGbnf, std::move(text), name));
  for (const char* name : {"regex", "guided_regex"})
    if (std::string text = fields.string(name); !text.empty())
      add(text_rules(GrammarKind::kRegex, std::move(text), name));
  for (const char* name : {"json_schema", "guided_json"})
    if (const Json* schema = fields.find(name)) add(guided_json(*schema, name));
  if (fields.has("guided_choice")) add(choice_rules(fields.strings("guided_choice"), "guided_choice"));
  if (const Json* object = fields.find("structured_outputs")) add(vllm_rules(*object));
  const std::string white_space = fields.string("json_whitespace");
  if (white_space != "none" && white_space != "free")
    bad_field("json_whitespace", fmt::format("'{:.20}': expected none or free", white_space));
  if (found) found->spec.free_white_space = white_space == "free";
  return found;
}

std::optional<Rules> read_ollama_rules(const Json* format, const std::string& grammar) {
  std::optional<Rules> rules;
  if (!grammar.empty()) rules = text_rules(model::GrammarKind::kGbnf, grammar, "options.grammar");
  if (format == nullptr || (format->is_string() && format->get<std::string>().empty())) return rules;
  if (rules) bad_field("format", "cannot stand beside options.grammar");
  if (format->is_string() && format->get<std::string>() == "json") return Rules{{}, "format"};
  if (format->is_object()) return schema_rules(*format, "format");
  bad_field("format", "expected \"json\" or a JSON schema");
}

}  // namespace butterfly::server
