#include "server/generation/read_request.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/secret.h"

namespace butterfly::server {
namespace {

using model::ToolStyle;

constexpr size_t kStopBytesMax = 256;

uint64_t seed_of(std::optional<int64_t> asked) {
  if (asked && *asked >= 0) return static_cast<uint64_t>(*asked);
  return std::stoull(random_hex(8), nullptr, 16);
}

void set_stops(std::vector<std::string> stops, const std::string& place, Generation& generation) {
  for (const std::string& stop : stops)
    if (stop.size() > kStopBytesMax)
      bad_field(place, fmt::format("a stop string of {} bytes, at most {}", stop.size(), kStopBytesMax));
  std::erase(stops, "");
  generation.request.stops = std::move(stops);
}

void set_tokens_max(int64_t count, const char* place, Generation& generation) {
  if (count == 0) bad_field(place, "expected at least 1, or -1 for no bound, found 0");
  if (count > 0) generation.request.tokens_max = static_cast<size_t>(count);
}

model::GrammarSpec schema_spec(const Json& schema) {
  model::GrammarSpec spec;
  spec.kind = model::GrammarKind::kJsonSchema;
  spec.text = to_text(schema);
  return spec;
}

// How each style's marks stand around a call.
model::ToolFormat format_of(ToolStyle style) {
  model::ToolFormat format;
  switch (style) {
    case ToolStyle::kHermes:
    case ToolStyle::kGeneric:
      break;
    case ToolStyle::kMistral:
      format.begin = "[TOOL_CALLS][";
      format.end = "]";
      format.between = "";
      break;
    case ToolStyle::kLlama3:
      format.begin = format.end = format.between = "";
      format.arguments_key = "parameters";
      break;
  }
  return format;
}

}  // namespace

void read_logit_bias(const Json& json, const std::string& place, Generation& generation) {
  const auto vocab = static_cast<int64_t>(generation.model->tokenizer().vocab_size());
  for (const auto& [key, value] : json.items()) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= vocab)
      bad_field(place, fmt::format("'{:.40}' is no token id: expected 0 to {}", key, vocab - 1));
    if (!value.is_number()) bad_field(place, fmt::format("the bias of {} is not a number", id));
    const double bias = value.get<double>();
    if (!(bias >= -100 && bias <= 100))
      bad_field(place, fmt::format("the bias of {} is {}, expected -100 to 100", id, bias));
    const float added = bias <= -100 ? -std::numeric_limits<float>::infinity() : static_cast<float>(bias);
    generation.request.sampling.logit_bias.emplace_back(id, added);
  }
}

namespace {

// What both interfaces call the same. `prefix` is for messages.
void read_sampler(const Fields& fields, const std::string& prefix, Generation& generation) {
  model::SamplerSettings& s = generation.request.sampling;
  s.temperature = static_cast<float>(fields.number("temperature"));
  s.top_p = static_cast<float>(fields.number("top_p"));
  s.top_k = static_cast<int32_t>(fields.integer("top_k"));
  s.min_p = static_cast<float>(fields.number("min_p"));
  s.repeat_penalty = static_cast<float>(fields.number("repeat_penalty"));
  s.repeat_last_n = static_cast<int32_t>(fields.integer("repeat_last_n"));
  s.frequency_penalty = static_cast<float>(fields.number("frequency_penalty"));
  s.presence_penalty = static_cast<float>(fields.number("presence_penalty"));
  s.seed = seed_of(fields.maybe_integer("seed"));
  if (const Json* bias = fields.find("logit_bias")) read_logit_bias(*bias, prefix + "logit_bias", generation);
  set_stops(fields.strings("stop"), prefix + "stop", generation);
}

}  // namespace

void read_sampling(const Fields& fields, Generation& generation) {
  read_sampler(fields, "", generation);
  const auto modern = fields.maybe_integer("max_completion_tokens");
  set_tokens_max(modern ? *modern : fields.integer("max_tokens"),
                 modern ? "max_completion_tokens" : "max_tokens", generation);
  generation.request.ignore_eos = fields.boolean("ignore_eos");
  generation.n = static_cast<size_t>(fields.integer("n"));
}

std::string read_ollama_options(const Json* options, Generation& generation) {
  const Json none = Json::object();
  const Fields fields(options == nullptr ? none : *options, kOllamaOptionFields, "options.");
  read_sampler(fields, "options.", generation);
  const int64_t predict = fields.integer("num_predict");
  if (predict >= 0) set_tokens_max(predict, "options.num_predict", generation);
  const size_t context = generation.model->engine().context();
  if (const auto wanted = fields.maybe_integer("num_ctx"); wanted && static_cast<size_t>(*wanted) > context)
    bad_field("options.num_ctx",
              fmt::format("{} positions, this server has {}: start it with a larger -c", *wanted, context));
  return fields.string("grammar");
}

std::optional<model::GrammarSpec> read_response_format(const Json* format, const std::string& place) {
  if (format == nullptr) return std::nullopt;
  if (!format->is_object() || !format->contains("type") || !(*format)["type"].is_string())
    bad_field(place + ".type", "expected text, json_object or json_schema");
  const std::string type = (*format)["type"].get<std::string>();
  if (type == "text") return std::nullopt;
  if (type == "json_object") {
    // llama.cpp's addition: a schema beside it.
    if (format->contains("schema") && (*format)["schema"].is_object())
      return schema_spec((*format)["schema"]);
    return model::GrammarSpec{};
  }
  if (type != "json_schema")
    bad_field(place + ".type", fmt::format("'{:.40}': expected text, json_object or json_schema", type));
  // Chat wraps the schema, responses does not.
  const Json& holder = format->contains("json_schema") ? (*format)["json_schema"] : *format;
  if (!holder.is_object() || !holder.contains("schema") ||
      !(holder["schema"].is_object() || holder["schema"].is_boolean()))
    bad_field(place + ".json_schema.schema", "expected a JSON schema");
  return schema_spec(holder["schema"]);
}

std::optional<model::GrammarSpec> read_ollama_format(const Json* format) {
  if (format == nullptr || (format->is_string() && format->get<std::string>().empty())) return std::nullopt;
  if (format->is_string() && format->get<std::string>() == "json") return model::GrammarSpec{};
  if (format->is_object()) return schema_spec(*format);
  bad_field("format", "expected \"json\" or a JSON schema");
}

ToolRequest read_tools(const Json* tools, const Json* choice, bool parallel) {
  ToolRequest out;
  out.parallel = parallel;
  if (tools != nullptr && !tools->empty()) out.tools = tools;
  std::vector<model::ToolSpec> all;
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    const Json& tool = (*tools)[i];
    const std::string place = fmt::format("tools[{}]", i);
    if (!tool.is_object() || tool.value("type", Json("function")) != Json("function"))
      bad_field(place + ".type", "only functions are supported");
    const Json& function = tool.contains("function") ? tool["function"] : tool;
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string() ||
        function["name"].get<std::string>().empty())
      bad_field(place + ".function.name", "expected a name");
    model::ToolSpec spec{function["name"].get<std::string>(), ""};
    if (function.contains("parameters") && function["parameters"].is_object() &&
        !function["parameters"].empty())
      spec.parameters = to_text(function["parameters"]);
    all.push_back(std::move(spec));
  }
  out.specs = all;
  if (choice == nullptr) return out;
  if (choice->is_string()) {
    const std::string word = choice->get<std::string>();
    if (word == "none") {
      out.tools = nullptr;
      out.specs.clear();
    } else if (word == "required") {
      if (all.empty()) bad_field("tool_choice", "required, but there are no tools");
      out.forced = true;
    } else if (word != "auto") {
      bad_field("tool_choice", fmt::format("'{:.40}': expected auto, none, required or a function", word));
    }
    return out;
  }
  const bool wrapped =
      choice->is_object() && choice->contains("function") && (*choice)["function"].is_object();
  const Json& named = wrapped ? (*choice)["function"] : *choice;
  if (!named.is_object() || !named.contains("name") || !named["name"].is_string())
    bad_field("tool_choice", "expected auto, none, required or a function with a name");
  const std::string name = named["name"].get<std::string>();
  out.specs.clear();
  for (const model::ToolSpec& spec : all)
    if (spec.name == name) out.specs.push_back(spec);
  if (out.specs.empty()) bad_field("tool_choice", fmt::format("there is no tool '{:.100}'", name));
  out.forced = true;
  out.parallel = false;  // one function, one call
  return out;
}

void set_rules(const std::string& gbnf, std::optional<model::GrammarSpec> format, const ToolRequest& tools,
               Generation& generation) {
  const ToolStyle style = generation.model->prompter().tool_style();
  std::optional<model::GrammarSpec> spec;
  const char* place = "response_format";
  if (!gbnf.empty()) {
    if (format) bad_field("grammar", "cannot stand beside a response format");
    if (tools.forced) bad_field("grammar", "cannot stand beside a forced tool");
    spec.emplace();
    spec->kind = model::GrammarKind::kGbnf;
    spec->text = gbnf;
    place = "grammar";
  } else if (tools.forced) {
    spec.emplace();
    spec->kind = model::GrammarKind::kTools;
    spec->tools = tools.specs;
    spec->format = format_of(style);
    spec->parallel_calls = false;
    place = "tools";
  } else if (format) {
    spec = std::move(format);
  } else if (tools.tools != nullptr && !tools.specs.empty() && style != ToolStyle::kLlama3) {
    // Free to talk; a call, once begun, is held to the schemas.
    spec.emplace();
    spec->kind = model::GrammarKind::kTools;
    spec->tools = tools.specs;
    spec->format = format_of(style);
    spec->choice = model::ToolChoice::kLazy;
    spec->parallel_calls = tools.parallel;
    place = "tools";
  }
  if (tools.tools != nullptr) {
    generation.tools = true;
    generation.tool_style = style;
    for (const model::ToolSpec& tool : tools.specs) generation.tool_names.push_back(tool.name);
    // Marks that are control tokens would not be seen.
    generation.request.show_special = style == ToolStyle::kMistral || style == ToolStyle::kLlama3;
  }
  if (!spec) return;
  try {
    generation.grammar = generation.model->grammars().compile(*spec);
  } catch (const Error& error) {
    bad_field(place, error.what(),
              error.code() == Errc::kUnsupported ? "unsupported_schema" : "invalid_schema");
  }
}

std::vector<int32_t> chat_prompt(const Generation& generation, const model::ChatRequest& conversation) {
  try {
    return generation.model->prompter().prompt(conversation);
  } catch (const model::ChatInputError& error) {
    throw ApiError(400, "invalid_request_error", error.what(), error.field, error.code);
  } catch (const Error& error) {
    throw ApiError(400, "invalid_request_error", error.what(), "messages", "chat_template_error");
  }
}

std::vector<std::vector<int32_t>> read_prompts(const Json& json, const std::string& place, size_t count_max,
                                               const model::Tokenizer& tokenizer) {
  const auto vocab = static_cast<int64_t>(tokenizer.vocab_size());
  const auto is_ids = [](const Json& list) {
    return list.is_array() && !list.empty() && list[0].is_number();
  };
  const auto one = [&](const Json& value, const std::string& where) -> std::vector<int32_t> {
    if (value.is_string()) return tokenizer.encode(value.get<std::string>());
    if (!is_ids(value)) bad_field(where, "expected a string or token ids");
    std::vector<int32_t> ids;
    for (const Json& id : value) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= vocab)
        bad_field(where, fmt::format("expected token ids from 0 to {}", vocab - 1));
      ids.push_back(id.get<int32_t>());
    }
    return ids;
  };
  std::vector<std::vector<int32_t>> prompts;
  if (json.is_string() || is_ids(json)) {
    prompts.push_back(one(json, place));
  } else if (json.is_array()) {
    if (json.empty() || json.size() > count_max)
      bad_field(place, fmt::format("expected 1 to {} of them, found {}", count_max, json.size()));
    for (size_t i = 0; i < json.size(); ++i) prompts.push_back(one(json[i], fmt::format("{}[{}]", place, i)));
  } else {
    bad_field(place, "expected a string, token ids, or an array of either");
  }
  for (const auto& prompt : prompts)
    if (prompt.empty()) bad_field(place, "holds no token");
  return prompts;
}

}  // namespace butterfly::server
