#include "server/generation/anthropic_input.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "server/api/api_error.h"

namespace butterfly::server {
namespace {

// One client begins its system prompt with a line for the biller, another one in each request. No model has
// use for it, and nothing behind a beginning that changes can be found in the cache.
constexpr std::string_view kBillingLine = "x-anthropic-billing-header:";

std::string without_billing(std::string text) {
  if (!text.starts_with(kBillingLine)) return text;
  const size_t end = text.find('\n');
  text.erase(0, end == std::string::npos ? end : end + 1);
  return text;
}

std::string type_of(const Json& block, const std::string& place) {
  if (!block.is_object() || !block.contains("type") || !block["type"].is_string())
    bad_field(place + ".type", "expected a block with a type");
  return block["type"].get<std::string>();
}

std::string text_member(const Json& block, const char* key, const std::string& place) {
  if (!block.contains(key) || !block[key].is_string()) bad_field(place + "." + key, "expected a string");
  return block[key].get<std::string>();
}

// A string, or blocks of text.
std::string text_of(const Json& content, const std::string& place) {
  if (content.is_null()) return {};
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) bad_field(place, "expected a string or an array of blocks");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string where = fmt::format("{}[{}]", place, i), type = type_of(content[i], where);
    if (type != "text")
      throw ApiError(400, "invalid_request_error",
                     fmt::format("{}.type: '{:.40}' is not supported here: only text is", where, type),
                     where + ".type", "unsupported_content");
    if (!text.empty()) text += "\n";
    text += text_member(content[i], "text", where);
  }
  return text;
}

void add_text(std::string& to, const std::string& text) {
  if (!to.empty() && !text.empty()) to += "\n";
  to += text;
}

// {"type": "document"} of plain text.
bool is_text_document(const std::string& type, const Json& block) {
  return type == "document" && block.contains("source") && block["source"].is_object() &&
         block["source"].value("type", Json()) == Json("text");
}

// What a tool found, as text. Tools read pictures whoever asks: a refusal would be the end of the
// conversation, since their clients send the same again, so the model is told what it does not see.
std::string result_text(const Json& content, const std::string& place) {
  if (!content.is_array()) return text_of(content, place);
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string where = fmt::format("{}[{}]", place, i), type = type_of(content[i], where);
    if (is_text_document(type, content[i])) {
      add_text(text, text_member(content[i]["source"], "data", where + ".source"));
    } else {
      add_text(text, type == "text" ? text_member(content[i], "text", where) : unseen(type));
    }
  }
  return text;
}

// What Anthropic's own servers did in a conversation that began there. What came of it is in the words
// behind.
bool is_others_work(const std::string& type) {
  return type == "server_tool_use" || type == "mcp_tool_use" || type == "compaction" ||
         (type != "tool_result" && type.ends_with("_tool_result"));
}

// The blocks of one message, collected by what becomes of them.
struct Blocks {
  std::string text, thinking;
  Json calls = Json::array(), results = Json::array();
};

void read_block(const Json& block, const std::string& place, bool assistant, Blocks& to) {
  const std::string type = type_of(block, place);
  if (type == "text") {
    add_text(to.text, text_member(block, "text", place));
  } else if (type == "thinking" && assistant) {
    add_text(to.thinking, text_member(block, "thinking", place));
  } else if (assistant && (type == "redacted_thinking" || is_others_work(type))) {
    // Nobody here can read it.
  } else if (type == "tool_use" && assistant) {
    to.calls.push_back({{"id", text_member(block, "id", place)},
                        {"type", "function"},
                        {"function",
                         {{"name", text_member(block, "name", place)},
                          {"arguments", block.value("input", Json::object())}}}});
  } else if (type == "tool_result" && !assistant) {
    std::string text = result_text(block.value("content", Json()), place + ".content");
    if (block.value("is_error", Json(false)) == Json(true)) text = "Error: " + text;
    to.results.push_back({{"role", "tool"},
                          {"tool_call_id", text_member(block, "tool_use_id", place)},
                          {"content", std::move(text)}});
  } else if (!assistant && is_text_document(type, block)) {
    add_text(to.text, text_member(block["source"], "data", place + ".source"));
  } else {
    throw ApiError(400, "invalid_request_error",
                   fmt::format("{}.type: '{:.40}' is not supported in a message of the {}", place, type,
                               assistant ? "assistant" : "user"),
                   place + ".type", "unsupported_content");
  }
}

void add_message(const Json& message, const std::string& place, Json& to) {
  if (!message.is_object()) bad_field(place, "expected an object with role and content");
  const Json role = message.value("role", Json());
  // Reminders that one client puts between the turns. Most templates know a system message only at the front,
  // and no two users in a row: they join what the user says.
  if (role == Json("system")) {
    const std::string text = text_of(message.value("content", Json()), place + ".content");
    if (to.empty() || to.back()["role"] != Json("user")) {
      to.push_back({{"role", to.empty() ? "system" : "user"}, {"content", text}});
    } else {
      std::string joined = to.back()["content"].get<std::string>();
      add_text(joined, text);
      to.back()["content"] = std::move(joined);
    }
    return;
  }
  if (role != Json("user") && role != Json("assistant"))
    bad_field(place + ".role", "expected user or assistant; a system prompt goes into 'system'");
  const bool assistant = role == Json("assistant");
  const Json content = message.value("content", Json());
  Blocks blocks;
  if (content.is_string()) {
    blocks.text = content.get<std::string>();
  } else if (content.is_array()) {
    for (size_t i = 0; i < content.size(); ++i)
      read_block(content[i], fmt::format("{}.content[{}]", place, i), assistant, blocks);
  } else {
    bad_field(place + ".content", "expected a string or an array of blocks");
  }
  for (Json& result : blocks.results) to.push_back(std::move(result));
  if (assistant) {
    Json out = {{"role", "assistant"}, {"content", blocks.text}};
    if (!blocks.thinking.empty()) out["reasoning_content"] = blocks.thinking;
    if (!blocks.calls.empty()) out["tool_calls"] = std::move(blocks.calls);
    to.push_back(std::move(out));
  } else if (!blocks.text.empty() || blocks.results.empty()) {
    to.push_back({{"role", "user"}, {"content", blocks.text}});
  }
}

}  // namespace

Json chat_messages_of(const Json* system, const Json& messages) {
  Json out = Json::array();
  if (system != nullptr) {
    std::string text;
    if (system->is_array()) {
      for (size_t i = 0; i < system->size(); ++i)
        add_text(text, without_billing(text_of(Json::array({(*system)[i]}), fmt::format("system[{}]", i))));
    } else {
      text = without_billing(text_of(*system, "system"));
    }
    if (!text.empty()) out.push_back({{"role", "system"}, {"content", text}});
  }
  for (size_t i = 0; i < messages.size(); ++i) add_message(messages[i], fmt::format("messages[{}]", i), out);
  return out;
}

Json chat_tools_of(const Json* tools) {
  Json out = Json::array();
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    const Json& tool = (*tools)[i];
    const std::string place = fmt::format("tools[{}]", i);
    if (!tool.is_object()) bad_field(place, "expected an object");
    const Json type = tool.value("type", Json("custom"));
    if (!type.is_null() && type != Json("custom")) continue;
    Json function = {{"name", text_member(tool, "name", place)}};
    if (tool.contains("description") && tool["description"].is_string())
      function["description"] = tool["description"];
    if (!tool.contains("input_schema") || !tool["input_schema"].is_object())
      bad_field(place + ".input_schema", "expected a JSON schema");
    function["parameters"] = tool["input_schema"];
    out.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return out;
}

Json chat_tool_choice_of(const Json* choice) {
  if (choice == nullptr) return {};
  const std::string type = type_of(*choice, "tool_choice");
  if (type == "auto" || type == "none") return type;
  if (type == "any") return "required";
  if (type != "tool") bad_field("tool_choice.type", "expected auto, any, tool or none");
  return {{"type", "function"}, {"function", {{"name", text_member(*choice, "name", "tool_choice")}}}};
}

}  // namespace butterfly::server
