#include "server/generation/responses_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/api/api_error.h"

namespace butterfly::server {
namespace {

constexpr size_t kToolsMax = 512;  // of all namespaces

// A part of the assistant's turn: what it says, calls and reasons is one message to templates.
Json& assistant_turn(Json& messages) {
  if (messages.empty() || messages.back()["role"] != Json("assistant"))
    messages.push_back({{"role", "assistant"}, {"content", ""}});
  return messages.back();
}

// The texts among an item's parts. Of what a model thought: as we gave it out; others' may be sealed.
std::string text_parts(const Json& item) {
  std::string text;
  const Json content = item.value("content", Json());
  if (content.is_array())
    for (const Json& part : content)
      if (part.is_object() && part.contains("text") && part["text"].is_string())
        text += part["text"].get<std::string>();
  return text;
}

// What OpenAI's own servers did in a conversation that began there. No model here can do it, and what came of
// it is in the words behind it.
constexpr std::string_view kOthersItems[] = {
    "web_search_call",
    "file_search_call",
    "computer_call",
    "computer_call_output",
    "image_generation_call",
    "code_interpreter_call",
    "mcp_list_tools",
    "mcp_call",
    "mcp_approval_request",
    "mcp_approval_response",
    "tool_search_call",
    "tool_search_output",
    "compaction",
    "compaction_summary",
    "context_compaction",
    "additional_tools",
};

std::string text_or_none(const Json& item, const char* key) {
  const Json value = item.value(key, Json());
  return value.is_string() ? value.get<std::string>() : std::string();
}

// What a tool found: a string, or parts, of which pictures and files are named only (see unseen()).
Json result_content(const Json& output) {
  if (!output.is_array()) return output;
  Json parts = Json::array();
  for (const Json& part : output) {
    const std::string type = part.is_object() ? text_or_none(part, "type") : std::string();
    const bool other = type == "input_image" || type == "input_file" || type == "input_audio";
    parts.push_back(other ? Json{{"type", "text"}, {"text", unseen(type)}} : part);
  }
  return parts;
}

// Calls of tools without a schema are calls of a function with one text.
Json call_message(const Json& item, const Json& name, const Json& arguments) {
  return {{"id", item.value("call_id", Json(""))},
          {"type", "function"},
          {"function", {{"name", name}, {"arguments", arguments}}}};
}

// Tools of one namespace have names of their own; templates know flat ones.
std::string flat_name(const std::string& space, const std::string& name) {
  constexpr std::string_view kBetween = "__";
  return space.empty() || space.ends_with(kBetween) ? space + name : space + std::string(kBetween) + name;
}

Json called_name(const Json& item) {
  const std::string space = text_or_none(item, "namespace"), name = text_or_none(item, "name");
  return space.empty() || name.empty() ? item.value("name", Json()) : Json(flat_name(space, name));
}

// What one agent tells another. Sealed parts are for OpenAI's servers.
std::string agent_words(const Json& item) {
  return fmt::format("{} to {}: {}", text_or_none(item, "author"), text_or_none(item, "recipient"),
                     text_parts(item));
}

// One function, as chat has it, under the name that `space` gives it.
void add_function(Json function, const std::string& space, const std::string& place, ResponseTools& to) {
  if (!function.is_object()) bad_field(place, "expected an object");
  // Tools that OpenAI's own servers would run (web_search, local_shell) come with every request of some
  // clients; no model here can call them.
  if (function.value("type", Json("function")) != Json("function")) return;
  if (to.list.size() >= kToolsMax) bad_field("tools", fmt::format("more than {} functions", kToolsMax));
  if (function.contains("function")) {
    to.list.push_back(std::move(function));
    return;
  }
  function.erase("type");
  function.erase("strict");
  function.erase("defer_loading");
  if (!space.empty()) {
    const std::string name = text_or_none(function, "name");
    if (name.empty()) bad_field(place + ".name", "expected a name");
    function["name"] = flat_name(space, name);
    to.spaces.emplace(flat_name(space, name), std::make_pair(space, name));
  }
  to.list.push_back({{"type", "function"}, {"function", std::move(function)}});
}

// {"type": "namespace", "name", "description", "tools": [...]}: how agents send the tools of an MCP server.
void add_namespace(const Json& space, const std::string& place, ResponseTools& to) {
  const std::string name = text_or_none(space, "name");
  if (name.empty()) bad_field(place + ".name", "expected a name");
  const Json tools = space.value("tools", Json::array());
  if (!tools.is_array()) bad_field(place + ".tools", "expected an array");
  for (size_t i = 0; i < tools.size(); ++i)
    add_function(tools[i], name, fmt::format("{}.tools[{}]", place, i), to);
}

}  // namespace

void nothing_is_kept(const std::string& field, const char* code) {
  throw ApiError(400, "invalid_request_error",
                 field + ": this server keeps nothing between requests; send the whole conversation in input",
                 field, code);
}

Json messages_of_input(const Json& input, const std::string& instructions) {
  Json messages = Json::array();
  if (!instructions.empty()) messages.push_back({{"role", "system"}, {"content", instructions}});
  if (input.is_string()) {
    messages.push_back({{"role", "user"}, {"content", input}});
    return messages;
  }
  if (!input.is_array()) bad_field("input", "expected a string or an array of messages");
  for (size_t i = 0; i < input.size(); ++i) {
    const Json& item = input[i];
    const std::string place = fmt::format("input[{}]", i);
    if (!item.is_object()) bad_field(place, "expected an object");
    const Json type = item.value("type", Json("message"));
    if (type == Json("message")) {
      const Json role = item.value("role", Json()), content = item.value("content", Json(""));
      // Reasoning and words of one turn come as two items.
      const bool joins = role == Json("assistant") && !messages.empty() && messages.back()["role"] == role &&
                         messages.back()["content"] == Json("") && !messages.back().contains("tool_calls");
      if (joins) {
        messages.back()["content"] = content;
      } else {
        messages.push_back({{"role", role}, {"content", content}});
      }
    } else if (type == Json("function_call")) {
      assistant_turn(messages)["tool_calls"].push_back(
          call_message(item, called_name(item), item.value("arguments", Json("{}"))));
    } else if (type == Json("custom_tool_call")) {
      assistant_turn(messages)["tool_calls"].push_back(
          call_message(item, called_name(item), to_text(Json{{"input", item.value("input", Json(""))}})));
    } else if (type == Json("local_shell_call")) {
      assistant_turn(messages)["tool_calls"].push_back(
          call_message(item, "local_shell", to_text(item.value("action", Json::object()))));
    } else if (type == Json("function_call_output") || type == Json("custom_tool_call_output") ||
               type == Json("local_shell_call_output")) {
      messages.push_back({{"role", "tool"},
                          {"tool_call_id", item.value("call_id", Json(""))},
                          {"content", result_content(item.value("output", Json("")))}});
    } else if (type == Json("reasoning")) {
      if (const std::string text = text_parts(item); !text.empty()) {
        messages.push_back({{"role", "assistant"}, {"content", ""}, {"reasoning_content", text}});
      }
    } else if (type == Json("agent_message")) {
      messages.push_back({{"role", "user"}, {"content", agent_words(item)}});
    } else if (type == Json("item_reference")) {
      nothing_is_kept(place, "item_not_found");
    } else if (!type.is_string() ||
               std::ranges::find(kOthersItems, type.get<std::string>()) == std::ranges::end(kOthersItems)) {
      bad_field(place + ".type",
                "expected message, reasoning, function_call, custom_tool_call, local_shell_call, or one of "
                "their outputs");
    }
  }
  return messages;
}

ResponseTools tools_of_response(const Json* tools) {
  ResponseTools out;
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    const Json& tool = (*tools)[i];
    const std::string place = fmt::format("tools[{}]", i);
    if (!tool.is_object()) bad_field(place, "expected an object");
    if (tool.value("type", Json()) == Json("namespace")) {
      add_namespace(tool, place, out);
    } else {
      add_function(tool, "", place, out);
    }
  }
  return out;
}

}  // namespace butterfly::server
