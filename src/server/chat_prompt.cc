#include "server/chat_prompt.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "server/api/api_error.h"

namespace butterfly::server {
namespace {

// U+FDD0, which Unicode keeps for such uses and no text has.
constexpr std::string_view kMark = "\xef\xb7\x90";

// For models without a template of their own: what most chat models of today were trained on.
constexpr std::string_view kChatMl =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% "
    "endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

std::string without_marks(std::string_view text) {
  std::string out(text);
  for (size_t at = 0; (at = out.find(kMark, at)) != std::string::npos;) out.erase(at, kMark.size());
  return out;
}

// Text of a content: a string, or parts {"type": "text", "text": ...}.
std::string content_text(const Json& content, const std::string& place) {
  if (content.is_null()) return {};
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) bad_field(place, "expected a string or an array of parts");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const Json& part = content[i];
    const std::string where = fmt::format("{}[{}]", place, i);
    if (part.is_string()) {
      text += part.get<std::string>();
      continue;
    }
    if (!part.is_object()) bad_field(where, "expected an object with type and text");
    const std::string type = part.value("type", Json("text")).is_string() ? part.value("type", "text") : "";
    if (type == "refusal" && part.contains("refusal") && part["refusal"].is_string()) {
      text += part["refusal"].get<std::string>();
      continue;
    }
    if (type != "text" && type != "input_text" && type != "output_text")
      bad_field(where + ".type", fmt::format("'{:.40}' is not supported: this server reads text", type),
                "unsupported_content");
    if (!part.contains("text") || !part["text"].is_string()) bad_field(where + ".text", "expected a string");
    text += part["text"].get<std::string>();
  }
  return text;
}

// Arguments as an object: templates write them out themselves. The API has them as a string.
Json checked_call(const Json& call, const std::string& place) {
  if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
    bad_field(place, "expected an object with a function");
  const Json& function = call["function"];
  if (!function.contains("name") || !function["name"].is_string())
    bad_field(place + ".function.name", "expected a string");
  Json out = call;
  if (!out.contains("type")) out["type"] = "function";
  if (function.contains("arguments") && function["arguments"].is_string()) {
    const std::string text = function["arguments"].get<std::string>();
    const Json arguments = text.empty() ? Json::object() : json_of_text_or_none<Json>(text);
    if (arguments.is_object()) out["function"]["arguments"] = arguments;
  }
  return out;
}

std::string tool_lesson(const Json& tools) {
  std::string text =
      "You may call functions. To call one, answer with nothing but\n"
      "<tool_call>\n{\"name\": <its name>, \"arguments\": <an object>}\n</tool_call>\nThe functions are:\n";
  for (const Json& tool : tools) text += to_text(tool.contains("function") ? tool["function"] : tool) + "\n";
  return text;
}

// For templates without a word for calls and results.
void spell_out_tools(Json& messages, const Json* tools) {
  if (tools != nullptr && !tools->empty()) {
    const std::string lesson = tool_lesson(*tools);
    if (!messages.empty() && messages[0]["role"] == "system")
      messages[0]["content"] = messages[0]["content"].get<std::string>() + "\n\n" + lesson;
    else
      messages.insert(messages.begin(), Json{{"role", "system"}, {"content", lesson}});
  }
  for (Json& message : messages) {
    if (message["role"] == "tool") {
      message["role"] = "user";
      message["content"] = "<tool_response>\n" + message["content"].get<std::string>() + "\n</tool_response>";
    }
    if (!message.contains("tool_calls")) continue;
    std::string text = message["content"].get<std::string>();
    for (const Json& call : message["tool_calls"])
      text += fmt::format("<tool_call>\n{}\n</tool_call>",
                          to_text({{"name", call["function"]["name"]},
                                   {"arguments", call["function"].value("arguments", Json::object())}}));
    message["content"] = text;
    message.erase("tool_calls");
  }
}

}  // namespace

std::string_view tool_style_name(ToolStyle format) {
  switch (format) {
    case ToolStyle::kHermes:
      return "hermes";
    case ToolStyle::kMistral:
      return "mistral";
    case ToolStyle::kLlama3:
      return "llama3";
    case ToolStyle::kGeneric:
      return "generic";
  }
  return "generic";
}

ToolStyle tool_style_of(std::string_view source) {
  const auto has = [&](std::string_view text) { return source.find(text) != std::string_view::npos; };
  if (has("[TOOL_CALLS]")) return ToolStyle::kMistral;
  if (has("<tool_call>")) return ToolStyle::kHermes;
  if (has("<|python_tag|>") || (has("<|start_header_id|>") && has("\"parameters\"")))
    return ToolStyle::kLlama3;
  return ToolStyle::kGeneric;
}

ChatPrompter::ChatPrompter(const model::Tokenizer& tokenizer, std::string source)
    : tokenizer_(tokenizer), source_(std::move(source)), own_(!source_.empty()) {
  if (!own_) source_ = kChatMl;
  tool_style_ = tool_style_of(source_);
  try {
    template_.emplace(model::ChatTemplate::compile(source_));
  } catch (const Error& error) {
    why_not_ = error.what();
  }
  const model::Vocabulary& vocabulary = tokenizer.vocabulary();
  for (size_t id = 0; id < vocabulary.size(); ++id)
    if (vocabulary.types[id] == model::TokenType::kControl ||
        vocabulary.types[id] == model::TokenType::kUnknown)
      control_.add(vocabulary.texts[id], static_cast<int32_t>(id));
}

std::string ChatPrompter::forge_proof(std::string_view text) const {
  const std::string clean =
      text.find(kMark) == std::string_view::npos ? std::string(text) : without_marks(text);
  std::string out;
  size_t from = 0;
  while (true) {
    const auto match = control_.find(clean, from);
    if (match.begin == std::string_view::npos) break;
    // After its first character: what is left on either side is not that token, and not a longer one either.
    size_t cut = match.begin + 1;
    while (cut < match.begin + match.length && (static_cast<unsigned char>(clean[cut]) & 0xc0) == 0x80) ++cut;
    if (cut >= match.begin + match.length) {  // a token of one character cannot be cut
      out.append(clean, from, match.begin + match.length - from);
    } else {
      out.append(clean, from, cut - from);
      out += kMark;
      out.append(clean, cut, match.begin + match.length - cut);
    }
    from = match.begin + match.length;
  }
  out.append(clean, from);
  return out;
}

std::vector<int32_t> ChatPrompter::encode(std::string_view marked) const {
  std::vector<int32_t> ids;
  bool first = true;
  while (first || !marked.empty()) {
    const size_t end = std::min(marked.find(kMark), marked.size());
    model::EncodeOptions options;
    options.parse_special = true;
    if (!first) options.add_bos = false;
    options.add_eos = false;
    std::vector<int32_t> part = tokenizer_.encode(marked.substr(0, end), options);
    // Templates that write the beginning-of-text token themselves would get a second one.
    if (first && part.size() >= 2 && tokenizer_.bos() && part[0] == *tokenizer_.bos() &&
        part[1] == *tokenizer_.bos())
      part.erase(part.begin());
    ids.insert(ids.end(), part.begin(), part.end());
    marked.remove_prefix(std::min(end + kMark.size(), marked.size()));
    first = false;
  }
  return ids;
}

Json ChatPrompter::checked_messages(const Request& request) const {
  Json messages = Json::array();
  for (size_t i = 0; i < request.messages->size(); ++i) {
    const Json& message = (*request.messages)[i];
    const std::string place = fmt::format("messages[{}]", i);
    if (!message.is_object()) bad_field(place, "expected an object with role and content");
    if (!message.contains("role") || !message["role"].is_string())
      bad_field(place + ".role", "expected a string");
    std::string role = message["role"].get<std::string>();
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant" && role != "tool")
      bad_field(place + ".role",
                fmt::format("'{:.40}': expected system, developer, user, assistant or tool", role));
    const bool has_calls = message.contains("tool_calls") && !message["tool_calls"].is_null();
    if (!message.contains("content") && !has_calls)
      bad_field(place + ".content", "is missing", "missing_required_parameter");
    Json out = {{"role", role}};
    out["content"] = forge_proof(content_text(message.value("content", Json()), place + ".content"));
    if (has_calls) {
      if (!message["tool_calls"].is_array()) bad_field(place + ".tool_calls", "expected an array");
      Json calls = Json::array();
      for (size_t c = 0; c < message["tool_calls"].size(); ++c)
        calls.push_back(checked_call(message["tool_calls"][c], fmt::format("{}.tool_calls[{}]", place, c)));
      if (!calls.empty()) out["tool_calls"] = calls;
    }
    for (const char* name : {"name", "tool_call_id", "reasoning_content"})
      if (message.contains(name) && message[name].is_string())
        out[name] = forge_proof(message[name].get<std::string>());
    messages.push_back(std::move(out));
  }
  return messages;
}

std::string ChatPrompter::text(const Request& request) const {
  if (!template_)
    throw ApiError(400, "invalid_request_error", "the model's chat template cannot be used: " + why_not_);
  Json messages = checked_messages(request);
  const bool tools = request.tools != nullptr && !request.tools->empty();
  if (tool_style_ == ToolStyle::kGeneric) spell_out_tools(messages, request.tools);
  Json extra = request.extra != nullptr ? *request.extra : Json::object();
  if (!request.reasoning_effort.empty()) extra["reasoning_effort"] = request.reasoning_effort;
  model::ChatTemplateOptions options;
  if (tokenizer_.bos()) options.bos_token = tokenizer_.token_text(*tokenizer_.bos());
  if (tokenizer_.eos()) options.eos_token = tokenizer_.token_text(*tokenizer_.eos());
  options.extra_json = to_text(extra);
  try {
    return template_->render(to_text(messages), tools ? to_text(*request.tools) : "", options);
  } catch (const Error& error) {
    throw ApiError(400, "invalid_request_error", error.what(), "messages", "chat_template_error");
  }
}

std::vector<int32_t> ChatPrompter::render(const Request& request) const { return encode(text(request)); }

}  // namespace butterfly::server
