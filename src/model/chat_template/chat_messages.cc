#include "model/chat_template/chat_messages.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "model/chat_template/chat_template.h"

namespace butterfly::model {
namespace {

using Json = nlohmann::ordered_json;

// Text of a content: a string, or parts {"type": "text", "text": ...}.
std::string content_text(const Json& content, const std::string& place) {
  if (content.is_null()) return {};
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) throw ChatInputError(place, "expected a string or an array of parts");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const Json& part = content[i];
    const std::string where = fmt::format("{}[{}]", place, i);
    if (part.is_string()) {
      text += part.get<std::string>();
      continue;
    }
    if (!part.is_object()) throw ChatInputError(where, "expected an object with type and text");
    const std::string type = part.value("type", Json("text")).is_string() ? part.value("type", "text") : "";
    if (type == "refusal" && part.contains("refusal") && part["refusal"].is_string()) {
      text += part["refusal"].get<std::string>();
      continue;
    }
    if (type != "text" && type != "input_text" && type != "output_text")
      throw ChatInputError(where + ".type", fmt::format("'{:.40}' is not supported: only text is", type),
                           "unsupported_content");
    if (!part.contains("text") || !part["text"].is_string())
      throw ChatInputError(where + ".text", "expected a string");
    text += part["text"].get<std::string>();
  }
  return text;
}

// Arguments as an object: templates write them out themselves. The API has them as a string.
Json checked_call(const Json& call, const std::string& place) {
  if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
    throw ChatInputError(place, "expected an object with a function");
  const Json& function = call["function"];
  if (!function.contains("name") || !function["name"].is_string())
    throw ChatInputError(place + ".function.name", "expected a string");
  Json out = call;
  if (!out.contains("type")) out["type"] = "function";
  if (function.contains("arguments") && function["arguments"].is_string()) {
    const std::string text = function["arguments"].get<std::string>();
    const Json arguments = text.empty() ? Json::object() : json_of_text_or_none<Json>(text);
    if (arguments.is_object()) out["function"]["arguments"] = arguments;
  }
  return out;
}

Json checked_calls(const Json& calls, const std::string& place) {
  if (!calls.is_array()) throw ChatInputError(place, "expected an array");
  Json out = Json::array();
  for (size_t i = 0; i < calls.size(); ++i)
    out.push_back(checked_call(calls[i], fmt::format("{}[{}]", place, i)));
  return out;
}

std::string checked_role(const Json& message, const std::string& place) {
  if (!message.contains("role") || !message["role"].is_string())
    throw ChatInputError(place + ".role", "expected a string");
  const std::string role = message["role"].get<std::string>();
  if (role == "developer") return "system";
  if (!is_chat_role(role))
    throw ChatInputError(place + ".role",
                         fmt::format("'{:.40}': expected system, developer, user, assistant or tool", role));
  return role;
}

Json checked_message(const Json& message, const std::string& place) {
  if (!message.is_object()) throw ChatInputError(place, "expected an object with role and content");
  Json out = {{"role", checked_role(message, place)}};
  const bool has_calls = message.contains("tool_calls") && !message["tool_calls"].is_null();
  if (!message.contains("content") && !has_calls)
    throw ChatInputError(place + ".content", "is missing", "missing_required_parameter");
  out["content"] = content_text(message.value("content", Json()), place + ".content");
  if (has_calls) {
    Json calls = checked_calls(message["tool_calls"], place + ".tool_calls");
    if (!calls.empty()) out["tool_calls"] = std::move(calls);
  }
  // A template asks whether a field is there: clients that send null for "none" mean that it is not.
  for (const auto& [name, value] : message.items())
    if (name != "role" && name != "content" && name != "tool_calls" && !value.is_null()) out[name] = value;
  // Templates know reasoning of earlier turns by one of two names, clients send either.
  constexpr const char* kNames[] = {"reasoning_content", "thinking"};
  for (const size_t i : {0u, 1u})
    if (out["role"] == Json("assistant") && out.contains(kNames[i]) && !out.contains(kNames[1 - i]) &&
        out[kNames[i]].is_string())
      out[kNames[1 - i]] = out[kNames[i]];
  return out;
}

std::string tool_lesson(const Json& tools) {
  std::string text =
      "You may call functions. To call one, answer with nothing but\n"
      "<tool_call>\n{\"name\": <its name>, \"arguments\": <an object>}\n</tool_call>\nThe functions are:\n";
  for (const Json& tool : tools)
    text += json_text(tool.contains("function") ? tool["function"] : tool) + "\n";
  return text;
}

}  // namespace

Json checked_messages(const Json& messages) {
  if (!messages.is_array()) throw ChatInputError("messages", "expected an array");
  Json out = Json::array();
  for (size_t i = 0; i < messages.size(); ++i)
    out.push_back(checked_message(messages[i], fmt::format("messages[{}]", i)));
  return out;
}

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
      text +=
          fmt::format("<tool_call>\n{}\n</tool_call>",
                      json_text(Json{{"name", call["function"]["name"]},
                                     {"arguments", call["function"].value("arguments", Json::object())}}));
    message["content"] = text;
    message.erase("tool_calls");
  }
}

}  // namespace butterfly::model
