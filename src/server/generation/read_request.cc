#include "server/generation/read_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/secret.h"
#include "server/generation/heavy_work.h"

namespace butterfly::server {
namespace {

constexpr size_t kStopBytesMax = 256;

uint64_t seed_of(std::optional<int64_t> asked) {
  if (asked && *asked >= 0) return static_cast<uint64_t>(*asked);
  return std::stoull(random_hex(8), nullptr, 16);
}

void set_tokens_max(int64_t count, const char* place, Generation& generation) {
  if (count == 0) bad_field(place, "expected at least 1, or -1 for no bound, found 0");
  if (count > 0) generation.request.tokens_max = static_cast<size_t>(count);
}

// Any part of `mark` is a control token: rules about text never lead there, and it has to be shown to be
// seen.
bool has_control_token(const model::Tokenizer& tokenizer, std::string_view mark) {
  const auto ids =
      tokenizer.encode(mark, {.add_bos = false, .add_eos = false, .parse_special = true, .plain = {}});
  return std::any_of(ids.begin(), ids.end(),
                     [&](int32_t id) { return tokenizer.type(id) == model::TokenType::kControl; });
}

}  // namespace

void add_stops(const std::vector<std::string>& stops, const std::string& place, Generation& generation) {
  for (const std::string& stop : stops) {
    if (stop.size() > kStopBytesMax)
      bad_field(place, fmt::format("a stop string of {} bytes, at most {}", stop.size(), kStopBytesMax));
    if (!stop.empty()) generation.request.stops.push_back(stop);
  }
}

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
  add_stops(fields.strings("stop"), prefix + "stop", generation);
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
    if (const Json strict = function.value("strict", Json()); strict == Json(true)) {
      out.strict = true;
      out.strict_place = place + ".function.strict";
    } else if (!strict.is_null() && !strict.is_boolean()) {
      bad_field(place + ".function.strict", "expected true or false");
    }
    all.push_back(std::move(spec));
  }
  out.specs = all;
  if (choice == nullptr) return out;
  if (choice->is_string()) {
    const std::string word = choice->get<std::string>();
    if (word == "none") {
      out.tools = nullptr;
      out.strict = false;
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

void set_rules(std::optional<Rules> rules, const ToolRequest& tools, Generation& generation) {
  const model::Tokenizer& tokenizer = generation.model->tokenizer();
  const model::ChatPrompter& prompter = generation.model->prompter();
  const ChatFamily* family = &generation.model->family();
  if (!prompter.knows_tools() && !family->reasons_itself) family = &family_by_name("taught");
  // A forced call of a family whose form no rules describe is asked for in the form that is taught.
  if (tools.forced && family->format == nullptr) family = &family_by_name("taught");
  // Calls are held to their schemas where text begins them that rules can see.
  const bool marked = family->format != nullptr && !family->format->begin.empty() &&
                      !has_control_token(tokenizer, family->format->begin);
  if (rules && tools.forced) bad_field(rules->place, "cannot stand beside a forced tool");
  if (!rules && tools.tools != nullptr && !tools.specs.empty() && (tools.forced || marked)) {
    rules.emplace();
    rules->place = "tools";
    rules->spec.kind = model::GrammarKind::kTools;
    rules->spec.tools = tools.specs;
    rules->spec.format = *family->format;
    // Free to talk, unless forced; a call, once begun, is held to the schemas.
    rules->spec.choice = tools.forced ? model::ToolChoice::kForced : model::ToolChoice::kLazy;
    rules->spec.parallel_calls = !tools.forced && tools.parallel;
  }
  const bool calls_held = rules && rules->spec.kind == model::GrammarKind::kTools;
  if (tools.strict && !calls_held)
    bad_field("tools",
              tools.strict_place +
                  ": calls in this model's form are held to their schemas only when tool_choice asks "
                  "for one, and no other rule is given");
  generation.output.family = family;
  if (tools.tools != nullptr) {
    generation.output.calls = true;
    generation.output.tools = tools.specs;
  }
  const bool special =
      (generation.output.calls || family->reasons_itself) && has_control_token(tokenizer, family->mark);
  generation.request.show_special = generation.request.show_special || special;
  if (!rules) return;
  // Rules that are compiled already cost nothing; others may take long, and so does the first look at the
  // vocabulary.
  if (this_thread_is_light) {
    model::GrammarCompiler* known = generation.model->grammars_if_made();
    generation.grammar = known == nullptr ? nullptr : known->find(rules->spec);
    if (generation.grammar != nullptr) return;
    if (generation.lease != nullptr) generation.lease->take_back();
    throw HeavyWork{};
  }
  try {
    generation.grammar = generation.model->grammars().compile(rules->spec);
  } catch (const Error& error) {
    bad_field(rules->place, error.what(),
              error.code() == Errc::kUnsupported ? "unsupported_schema" : "invalid_schema");
  }
}

namespace {

// The prompt ends inside of reasoning: the template opened it. Whatever a message says does not count.
bool opens_reasoning(const model::RenderedChat& chat, const ReasoningMarks& marks) {
  const size_t from = chat.input.empty() ? 0 : chat.input.back().end;
  const std::string_view own = std::string_view(chat.text).substr(from);
  const size_t open = own.rfind(marks.open), close = own.rfind(marks.close);
  return open != own.npos && (close == own.npos || close < open);
}

}  // namespace

ReasoningRequest read_reasoning(const Fields& fields, Json& extra) {
  ReasoningRequest reasoning;
  const std::string effort = fields.string("reasoning_effort"), format = fields.string("reasoning_format");
  const int64_t budget = fields.integer("reasoning_budget");
  if (format != "auto" && format != "none" && format != "deepseek")
    bad_field("reasoning_format", fmt::format("'{:.20}': expected auto or none", format));
  reasoning.split = format != "none";
  if (budget > 0) reasoning.tokens_max = static_cast<size_t>(budget);
  if (effort == "none" || budget == 0) {
    if (!extra.contains("enable_thinking")) extra["enable_thinking"] = false;
    // A model that reasons all the same is stopped at once.
    if (budget == 0) reasoning.tokens_max = 0;
  } else if (!effort.empty()) {
    extra["reasoning_effort"] = effort;
  }
  return reasoning;
}

model::RenderedChat render_chat(const model::ChatPrompter& prompter, model::ChatRequest conversation) {
  conversation.quick_steps = this_thread_is_light ? kLightTemplateSteps : 0;
  try {
    return prompter.render(conversation);
  } catch (const model::chat_template::RenderingTakesLong&) {
    throw HeavyWork{};
  }
}

void set_chat_prompt(const model::ChatRequest& conversation, const ReasoningRequest& reasoning,
                     Generation& generation) {
  const model::ChatPrompter& prompter = generation.model->prompter();
  const model::Tokenizer& tokenizer = generation.model->tokenizer();
  OutputForm& output = generation.output;
  if (output.family == nullptr) output.family = &generation.model->family();
  try {
    const model::RenderedChat chat = render_chat(prompter, conversation);
    const ReasoningMarks* marks = generation.model->reasoning_marks();
    if (marks != nullptr && reasoning.split) {
      output.reasoning = marks;
      output.inside = opens_reasoning(chat, *marks);
      if (has_control_token(tokenizer, marks->close)) generation.request.show_special = true;
    }
    generation.reasoning_tokens_max = reasoning.tokens_max;
    generation.prompts.push_back(prompter.encode(chat));
  } catch (const HeavyWork&) {
    if (generation.lease != nullptr) generation.lease->take_back();
    throw;
  } catch (const model::ChatInputError& error) {
    throw ApiError(400, "invalid_request_error", error.what(), error.field, error.code);
  } catch (const Error& error) {
    throw ApiError(400, "invalid_request_error", error.what(), "messages", "chat_template_error");
  }
}

std::vector<std::vector<int32_t>> read_prompts(const Json& json, const std::string& place, size_t count_max,
                                               const model::Tokenizer& tokenizer, bool parse_special) {
  const auto vocab = static_cast<int64_t>(tokenizer.vocab_size());
  const auto is_ids = [](const Json& list) {
    return list.is_array() && !list.empty() && list[0].is_number();
  };
  const auto one = [&](const Json& value, const std::string& where) -> std::vector<int32_t> {
    if (value.is_string()) {
      model::EncodeOptions options;
      options.parse_special = parse_special;
      std::vector<int32_t> ids = tokenizer.encode(value.get<std::string>(), options);
      // Templates write the beginning-of-text token themselves.
      const auto bos = tokenizer.bos();
      if (parse_special && bos && ids.size() >= 2 && ids[0] == *bos && ids[1] == *bos) ids.erase(ids.begin());
      return ids;
    }
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
