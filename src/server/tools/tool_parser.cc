#include "server/tools/tool_parser.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/secret.h"
#include "server/api/api_error.h"
#include "server/api/json.h"

namespace butterfly::server {
namespace {

constexpr size_t kCallBytesMax = size_t{1} << 20;  // more is no call

// The longest end of `text` that begins `marker`.
size_t begun(std::string_view text, std::string_view marker) {
  for (size_t length = std::min(text.size(), marker.size() - 1); length > 0; --length)
    if (text.ends_with(marker.substr(0, length))) return length;
  return 0;
}

bool read_call(const Json& json, const std::vector<std::string>& names, ToolCall& call) {
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return false;
  call.name = json["name"].get<std::string>();
  if (std::find(names.begin(), names.end(), call.name) == names.end()) return false;
  const char* key = json.contains("arguments") ? "arguments" : "parameters";
  Json arguments = json.value(key, Json::object());
  if (arguments.is_string()) {  // some models write JSON in JSON
    const Json inner = json_of_text_or_none<Json>(arguments.get<std::string>());
    if (inner.is_object()) arguments = inner;
  }
  if (!arguments.is_object()) return false;
  call.arguments = to_text(arguments);
  call.id = "call_" + random_hex(24);
  return true;
}

// Calls between two markers; the end of the text ends one too.
class MarkedParser : public ToolParser {
 public:
  MarkedParser(std::string open, std::string close, std::vector<std::string> names)
      : open_(std::move(open)), close_(std::move(close)), names_(std::move(names)) {}

  ToolDelta push(std::string_view text) override {
    held_ += text;
    ToolDelta out;
    while (inside_ ? end_call(out) : begin_call(out)) {
    }
    return out;
  }

  ToolDelta flush() override {
    ToolDelta out;
    if (inside_) {
      give(held_, {}, out);
    } else {
      out.text = held_;
    }
    held_.clear();
    inside_ = false;
    return out;
  }

 private:
  bool begin_call(ToolDelta& out) {
    const size_t at = held_.find(open_);
    if (at == std::string::npos) {
      const size_t keep = begun(held_, open_);
      out.text += held_.substr(0, held_.size() - keep);
      held_.erase(0, held_.size() - keep);
      return false;
    }
    out.text += held_.substr(0, at);
    held_.erase(0, at + open_.size());
    inside_ = true;
    return true;
  }

  bool end_call(ToolDelta& out) {
    const size_t at = close_.empty() ? std::string::npos : held_.find(close_);
    if (at == std::string::npos && held_.size() <= kCallBytesMax) return false;
    const bool closed = at != std::string::npos;
    give(held_.substr(0, at), closed ? close_ : std::string(), out);
    held_.erase(0, closed ? at + close_.size() : held_.size());
    inside_ = false;
    return true;
  }

  // `close`: the marker behind the body, empty where the text ended without one.
  void give(const std::string& body, const std::string& close, ToolDelta& out) {
    std::vector<ToolCall> calls = read_calls(body, names_);
    if (calls.empty()) {
      out.text += open_ + body + close;
    } else {
      std::move(calls.begin(), calls.end(), std::back_inserter(out.calls));
    }
  }

  const std::string open_, close_;
  const std::vector<std::string> names_;
  std::string held_;
  bool inside_ = false;
};

// The answer as a whole is a call, or it is words: known by its first character.
class WholeParser : public ToolParser {
 public:
  explicit WholeParser(std::vector<std::string> names) : names_(std::move(names)) {}

  ToolDelta push(std::string_view text) override {
    if (words_) return {std::string(text), {}};
    held_ += text;
    std::string_view rest = held_;
    skip(rest);
    if (!rest.empty() && rest.front() != '{' && rest.front() != '[' && begun(rest, kTag) != rest.size())
      words_ = true;
    if (held_.size() > kCallBytesMax) words_ = true;
    if (!words_) return {};
    return {std::exchange(held_, {}), {}};
  }

  ToolDelta flush() override {
    std::string_view rest = held_;
    skip(rest);
    ToolDelta out{{}, read_calls(rest, names_)};
    if (out.calls.empty()) out.text = held_;
    held_.clear();
    return out;
  }

 private:
  static constexpr std::string_view kTag = "<|python_tag|>";
  static void skip(std::string_view& text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (text.starts_with(kTag)) text.remove_prefix(kTag.size());
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  }

  const std::vector<std::string> names_;
  std::string held_;
  bool words_ = false;
};

}  // namespace

void ToolDelta::append(ToolDelta other) {
  text += other.text;
  std::move(other.calls.begin(), other.calls.end(), std::back_inserter(calls));
}

std::vector<ToolCall> read_calls(std::string_view text, const std::vector<std::string>& names) {
  Json json;
  try {
    json = parse_json(text);  // with the limits of requests: models write odd things
  } catch (const ApiError&) {
    return {};
  }
  std::vector<ToolCall> calls;
  const Json list = json.is_array() ? json : Json::array({json});
  for (const Json& element : list) {
    ToolCall call;
    if (!read_call(element, names, call)) return {};
    calls.push_back(std::move(call));
  }
  return calls;
}

std::unique_ptr<ToolParser> make_tool_parser(model::ToolStyle style, std::vector<std::string> names) {
  using model::ToolStyle;
  switch (style) {
    case ToolStyle::kMistral:
      return std::make_unique<MarkedParser>("[TOOL_CALLS]", "", std::move(names));
    case ToolStyle::kLlama3:
      return std::make_unique<WholeParser>(std::move(names));
    case ToolStyle::kHermes:
    case ToolStyle::kGeneric:
      break;
  }
  return std::make_unique<MarkedParser>("<tool_call>", "</tool_call>", std::move(names));
}

}  // namespace butterfly::server
