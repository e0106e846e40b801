// GLM 4.5 to 5: <tool_call>NAME<arg_key>key</arg_key><arg_value>value</arg_value>...</tool_call>.
#include <nlohmann/json.hpp>

#include "server/tools/call_text.h"
#include "server/tools/chat_family.h"

namespace butterfly::server {
namespace {

constexpr CallMarks kGlmMarks{"<tool_call>", "</tool_call>"};

bool fits_glm(std::string_view source) { return source.find("<arg_key>") != std::string_view::npos; }

std::vector<ToolCall> read_glm(std::string_view body, const ToolSpecs& tools) {
  const std::string name(trimmed(body.substr(0, body.find("<arg_key>"))));
  Json arguments = Json::object();
  while (take_until(body, "<arg_key>")) {
    const auto key = take_until(body, "</arg_key>");
    if (!key || !take_until(body, "<arg_value>")) return {};
    const auto value = take_until(body, "</arg_value>");
    if (!value) return {};
    const std::string parameter(trimmed(*key));
    arguments[parameter] = plain_value(tools, name, parameter, *value);
  }
  auto call = make_call(tools, name, std::move(arguments));
  return call ? std::vector<ToolCall>{std::move(*call)} : std::vector<ToolCall>{};
}

OutputParserPtr glm_parser(ToolSpecs tools) { return marked_parser(kGlmMarks, read_glm, std::move(tools)); }

}  // namespace

extern const ChatFamily kGlmFamily;
const ChatFamily kGlmFamily{"glm", fits_glm, kGlmMarks.open, glm_parser};

}  // namespace butterfly::server
