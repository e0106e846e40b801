#include "server/tools/call_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/secret.h"
#include "server/api/api_error.h"

namespace butterfly::server {
namespace {

// With the limits of requests: models write odd things.
std::optional<Json> read_json(std::string_view text) {
  try {
    return parse_json(text);
  } catch (const ApiError&) {
    return std::nullopt;
  }
}

std::optional<ToolCall> read_call(const Json& json, const ToolSpecs& tools) {
  if (!json.is_object()) return std::nullopt;
  const Json& holder = json.contains("function") && json["function"].is_object() ? json["function"] : json;
  if (!holder.contains("name") || !holder["name"].is_string()) return std::nullopt;
  const char* key = holder.contains("arguments") ? "arguments" : "parameters";
  return make_call(tools, holder["name"].get<std::string>(), holder.value(key, Json::object()));
}

// Literals of Python, as models write them in calls.
class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  bool at_end() {
    blanks();
    return text_.empty();
  }
  bool take(char c) {
    blanks();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  // With dots: some models write tools.f().
  std::string name() {
    blanks();
    size_t length = 0;
    while (length < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[length])) != 0 ||
                                     text_[length] == '_' || text_[length] == '.' || text_[length] == '-'))
      ++length;
    const std::string word(text_.substr(0, length));
    text_.remove_prefix(length);
    return word;
  }

  std::optional<Json> value(int depth = 0) {
    blanks();
    if (text_.empty() || depth > kDepthMax) return std::nullopt;
    switch (text_.front()) {
      case '\'':
      case '"':
        return quoted();
      case '[':
      case '(':
        return list(text_.front() == '[' ? ']' : ')', depth);
      case '{':
        return dict(depth);
      default:
        return word();
    }
  }

 private:
  static constexpr int kDepthMax = 32;

  void blanks() { text_.remove_prefix(std::min(text_.find_first_not_of(" \t\r\n"), text_.size())); }

  std::optional<Json> quoted() {
    const char quote = text_.front();
    text_.remove_prefix(1);
    std::string out;
    while (!text_.empty() && text_.front() != quote) {
      char c = text_.front();
      text_.remove_prefix(1);
      if (c == '\\' && !text_.empty()) {
        c = text_.front();
        text_.remove_prefix(1);
        if (c != 'n' && c != 't' && c != 'r' && c != quote && c != '\\') out += '\\';
        c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
      }
      out += c;
    }
    if (text_.empty()) return std::nullopt;
    text_.remove_prefix(1);
    return Json(out);
  }

  std::optional<Json> list(char close, int depth) {
    text_.remove_prefix(1);
    Json out = Json::array();
    while (!take(close)) {
      auto element = value(depth + 1);
      if (!element) return std::nullopt;
      out.push_back(std::move(*element));
      if (!take(',') && (text_.empty() || text_.front() != close)) return std::nullopt;
    }
    return out;
  }

  std::optional<Json> dict(int depth) {
    text_.remove_prefix(1);
    Json out = Json::object();
    while (!take('}')) {
      const auto key = value(depth + 1);
      if (!key || !key->is_string() || !take(':')) return std::nullopt;
      auto element = value(depth + 1);
      if (!element) return std::nullopt;
      out[key->get<std::string>()] = std::move(*element);
      if (!take(',') && (text_.empty() || text_.front() != '}')) return std::nullopt;
    }
    return out;
  }

  std::optional<Json> word() {
    const size_t end = std::min(text_.find_first_of(",)]}: \t\r\n"), text_.size());
    const std::string_view text = text_.substr(0, end);
    text_.remove_prefix(end);
    if (text == "True" || text == "true") return Json(true);
    if (text == "False" || text == "false") return Json(false);
    if (text == "None" || text == "null") return Json();
    auto number = read_json(text);
    return number && number->is_number() ? number : std::nullopt;
  }

  std::string_view text_;
};

std::optional<ToolCall> read_python_call(PythonReader& reader, const ToolSpecs& tools) {
  const std::string name = reader.name();
  if (name.empty() || !reader.take('(')) return std::nullopt;
  Json arguments = Json::object();
  bool closed = reader.take(')');
  while (!closed) {
    const std::string key = reader.name();
    if (key.empty() || !reader.take('=')) return std::nullopt;
    auto value = reader.value();
    if (!value) return std::nullopt;
    arguments[key] = std::move(*value);
    closed = reader.take(')');
    if (!closed && !reader.take(',')) return std::nullopt;
  }
  return make_call(tools, name, std::move(arguments));
}

}  // namespace

void ParsedText::append(ParsedText other) {
  reasoning += other.reasoning;
  text += other.text;
  std::move(other.calls.begin(), other.calls.end(), std::back_inserter(calls));
}

std::optional<ToolCall> make_call(const ToolSpecs& tools, const std::string& name, Json arguments) {
  if (std::none_of(tools.begin(), tools.end(), [&](const auto& tool) { return tool.name == name; }))
    return std::nullopt;
  if (arguments.is_string()) {
    auto inner = read_json(arguments.get<std::string>());
    if (inner && inner->is_object()) arguments = std::move(*inner);
  }
  if (!arguments.is_object()) return std::nullopt;
  return ToolCall{"call_" + random_hex(24), name, to_text(arguments)};
}

std::optional<ToolCall> make_call(const ToolSpecs& tools, const std::string& name, std::string_view json) {
  auto arguments = trimmed(json).empty() ? Json::object() : read_json(json);
  if (!arguments) return std::nullopt;
  return make_call(tools, name, std::move(*arguments));
}

std::vector<ToolCall> read_json_calls(std::string_view text, const ToolSpecs& tools) {
  const auto json = read_json(trimmed(text));
  if (!json) return {};
  std::vector<ToolCall> calls;
  const Json list = json->is_array() ? *json : Json::array({*json});
  for (const Json& element : list) {
    auto call = read_call(element, tools);
    if (!call) return {};
    calls.push_back(std::move(*call));
  }
  return calls;
}

std::vector<ToolCall> read_python_calls(std::string_view text, const ToolSpecs& tools) {
  PythonReader reader(text);
  const bool list = reader.take('[');
  std::vector<ToolCall> calls;
  do {
    auto call = read_python_call(reader, tools);
    if (!call) return {};
    calls.push_back(std::move(*call));
  } while (list && reader.take(','));
  if (list && !reader.take(']')) return {};
  return reader.at_end() ? calls : std::vector<ToolCall>{};
}

Json plain_value(const ToolSpecs& tools, const std::string& tool, const std::string& parameter,
                 std::string_view text) {
  const auto spec =
      std::find_if(tools.begin(), tools.end(), [&](const auto& candidate) { return candidate.name == tool; });
  Json type;
  if (spec != tools.end() && !spec->parameters.empty()) {
    const Json schema = json_of_text_or_none<Json>(spec->parameters);
    const Json::json_pointer place =
        Json::json_pointer("/properties") / parameter / "type";  // escapes what must be
    if (schema.is_object() && schema.contains(place)) type = schema.at(place);
  }
  if (type == Json("string")) return Json(std::string(text));
  if (auto value = read_json(trimmed(text)); value && (!value->is_string() || type.is_null())) return *value;
  // Python's words.
  if (text == "True" || text == "False") return Json(text == "True");
  if (text == "None") return Json();
  return Json(std::string(text));
}

std::string_view trimmed(std::string_view text) {
  constexpr const char* kBlanks = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

std::optional<std::string_view> take_until(std::string_view& text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + mark.size());
  return before;
}

bool take_front(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

size_t begun(std::string_view text, std::string_view mark) {
  for (size_t length = std::min(text.size(), mark.size() - 1); length > 0; --length)
    if (text.ends_with(mark.substr(0, length))) return length;
  return 0;
}

}  // namespace butterfly::server
