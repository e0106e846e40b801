// Gemma for functions: call:NAME{key:<escape>text<escape>,other:1} between marks. Other Gemmas are taught.
#include <nlohmann/json.hpp>

#include "server/tools/call_text.h"
#include "server/tools/chat_family.h"

namespace butterfly::server {
namespace {

constexpr CallMarks kGemmaMarks{"<start_function_call>", "<end_function_call>"};
constexpr std::string_view kGemmaQuote = "<escape>";

bool fits_gemma(std::string_view source) { return source.find(kGemmaMarks.open) != std::string_view::npos; }

// One value and the comma or brace behind it, which stays.
std::optional<Json> take_value(std::string_view& text, int depth = 0) {
  constexpr int kDepthMax = 16;
  if (depth > kDepthMax) return std::nullopt;
  if (take_front(text, kGemmaQuote)) {
    const auto inner = take_until(text, kGemmaQuote);
    return inner ? std::optional(Json(std::string(*inner))) : std::nullopt;
  }
  if (take_front(text, "[")) {
    Json list = Json::array();
    while (!take_front(text, "]")) {
      auto element = take_value(text, depth + 1);
      if (!element || (!take_front(text, ",") && !text.starts_with(']'))) return std::nullopt;
      list.push_back(std::move(*element));
    }
    return list;
  }
  if (take_front(text, "{")) {
    Json object = Json::object();
    while (!take_front(text, "}")) {
      const auto key = take_until(text, ":");
      if (!key) return std::nullopt;
      auto element = take_value(text, depth + 1);
      if (!element || (!take_front(text, ",") && !text.starts_with('}'))) return std::nullopt;
      std::string_view name = trimmed(*key);
      take_front(name, kGemmaQuote);
      object[std::string(name.substr(0, name.find(kGemmaQuote)))] = std::move(*element);
    }
    return object;
  }
  const std::string_view word = text.substr(0, text.find_first_of(",]}"));
  text.remove_prefix(word.size());
  if (word.empty()) return std::nullopt;
  return plain_value({}, "", "", trimmed(word));
}

std::vector<ToolCall> read_gemma(std::string_view body, const ToolSpecs& tools) {
  body = trimmed(body);
  if (!take_front(body, "call:")) return {};
  const std::string name(trimmed(body.substr(0, body.find('{'))));
  body.remove_prefix(std::min(body.find('{'), body.size()));
  auto arguments = take_value(body);
  if (!arguments || !trimmed(body).empty()) return {};
  auto call = make_call(tools, name, std::move(*arguments));
  return call ? std::vector<ToolCall>{std::move(*call)} : std::vector<ToolCall>{};
}

OutputParserPtr gemma_parser(ToolSpecs tools) {
  return marked_parser(kGemmaMarks, read_gemma, std::move(tools));
}

}  // namespace

extern const ChatFamily kGemmaFamily;
const ChatFamily kGemmaFamily{"gemma", fits_gemma, kGemmaMarks.open, gemma_parser};

}  // namespace butterfly::server
