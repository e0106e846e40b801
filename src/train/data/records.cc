#include "train/data/records.h"

#include <fmt/format.h>

#include "base/error.h"

namespace butterfly::train {
namespace {

using Json = model::ChatJson;

const Json& member(const Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end()) fail(Errc::kCorrupt, "key \"{}\" is missing", key);
  return *found;
}

std::string text_of(const Json& value, const char* key) {
  if (!value.is_string())
    fail(Errc::kCorrupt, "key \"{}\": expected a text, found {}", key, value.type_name());
  return value.get<std::string>();
}

// Contents in parts, as servers take them, are their texts one behind the other.
Json content_of(const Json& content) {
  if (!content.is_array()) return content;
  std::string text;
  for (const Json& part : content) {
    const bool is_text = part.is_object() && part.value("type", "") == "text" && part.contains("text");
    if (!is_text) fail(Errc::kCorrupt, "key \"content\": a part that is no text");
    text += text_of(part.at("text"), "text");
  }
  return text;
}

Json messages_of(const Json& list, const char* key) {
  if (!list.is_array() || list.empty())
    fail(Errc::kCorrupt, "key \"{}\": expected a list of messages, found {}", key, list.type_name());
  Json messages = Json::array();
  for (const Json& item : list) {
    if (!item.is_object() || !item.contains("role"))
      fail(Errc::kCorrupt, "key \"{}\": a message without a role", key);
    messages.push_back(item);
    if (item.contains("content")) messages.back()["content"] = content_of(item["content"]);
  }
  return messages;
}

// ShareGPT's roles.
Json conversation_of(const Json& list) {
  if (!list.is_array() || list.empty())
    fail(Errc::kCorrupt, "key \"conversations\": expected a list, found {}", list.type_name());
  if (list[0].is_object() && list[0].contains("role")) return messages_of(list, "conversations");
  Json messages = Json::array();
  for (const Json& item : list) {
    if (!item.is_object()) fail(Errc::kCorrupt, "key \"conversations\": an entry that is no object");
    const std::string from = text_of(member(item, "from"), "from");
    const char* role = from == "human" || from == "user"                           ? "user"
                       : from == "gpt" || from == "assistant" || from == "chatgpt" ? "assistant"
                       : from == "system"                                          ? "system"
                       : from == "tool" || from == "function_response"             ? "tool"
                                                                                   : nullptr;
    if (role == nullptr)
      fail(Errc::kCorrupt, "key \"from\": expected human, gpt, system or tool, found '{}'", from);
    messages.push_back({{"role", role}, {"content", text_of(member(item, "value"), "value")}});
  }
  return messages;
}

// A question, or messages up to an answer.
Json asked(const Json& prompt) {
  if (prompt.is_array()) return messages_of(prompt, "prompt");
  return Json::array({{{"role", "user"}, {"content", text_of(prompt, "prompt")}}});
}

// `before` and the answer: a text, or messages that begin with the answer or repeat what came before it.
Json answered(Json before, const Json& answer, const char* key) {
  if (!answer.is_array()) {
    before.push_back({{"role", "assistant"}, {"content", text_of(answer, key)}});
    return before;
  }
  Json messages = messages_of(answer, key);
  if (messages[0].value("role", "") != "assistant") return messages;
  for (const Json& message : messages) before.push_back(message);
  return before;
}

Json alpaca(const Json& line) {
  Json messages = Json::array();
  if (const auto system = line.find("system"); system != line.end() && system->is_string() && *system != "")
    messages.push_back({{"role", "system"}, {"content", *system}});
  std::string question = text_of(member(line, "instruction"), "instruction");
  if (const auto input = line.find("input"); input != line.end() && input->is_string() && *input != "")
    question += "\n\n" + input->get<std::string>();
  messages.push_back({{"role", "user"}, {"content", question}});
  messages.push_back({{"role", "assistant"}, {"content", text_of(member(line, "output"), "output")}});
  return messages;
}

std::string keys_of(const Json& line) {
  std::string keys;
  for (const auto& [key, value] : line.items()) keys += (keys.empty() ? "" : ", ") + key;
  return keys.empty() ? "none" : keys;
}

}  // namespace

Record read_record(const Json& line) {
  if (!line.is_object()) fail(Errc::kCorrupt, "expected an object with keys, found {}", line.type_name());
  Record record;
  if (const auto tools = line.find("tools"); tools != line.end() && tools->is_array()) record.tools = *tools;
  if (line.contains("chosen") || line.contains("rejected")) {
    const Json before = line.contains("prompt") ? asked(line["prompt"]) : Json::array();
    record.messages = answered(before, member(line, "chosen"), "chosen");
    record.rejected = answered(before, member(line, "rejected"), "rejected");
  } else if (line.contains("messages")) {
    record.messages = messages_of(line["messages"], "messages");
  } else if (line.contains("conversations")) {
    record.messages = conversation_of(line["conversations"]);
  } else if (line.contains("prompt")) {
    const char* key = line.contains("response") ? "response" : "completion";
    record.messages = answered(asked(line["prompt"]), member(line, key), key);
  } else if (line.contains("instruction")) {
    record.messages = alpaca(line);
  } else if (line.contains("text")) {
    record.text = text_of(line["text"], "text");
  } else {
    fail(Errc::kCorrupt,
         "expected one of the keys messages, conversations, prompt, instruction or text, found {}",
         keys_of(line));
  }
  return record;
}

}  // namespace butterfly::train
