// MiniMax M2: <invoke name="NAME"><parameter name="KEY">value</parameter>...</invoke> between marks of its
// own.
#include <nlohmann/json.hpp>

#include "server/tools/call_text.h"
#include "server/tools/chat_family.h"

namespace butterfly::server {
namespace {

constexpr CallMarks kMinimaxMarks{"<minimax:tool_call>", "</minimax:tool_call>"};

bool fits_minimax(std::string_view source) {
  return source.find(kMinimaxMarks.open) != std::string_view::npos;
}

std::vector<ToolCall> read_minimax(std::string_view body, const ToolSpecs& tools) {
  std::vector<ToolCall> calls;
  while (take_until(body, "<invoke name=\"")) {
    const auto name_text = take_until(body, "\">");
    auto inner = take_until(body, "</invoke>");
    if (!name_text || !inner) return {};
    const std::string name(*name_text);
    Json arguments = Json::object();
    while (take_until(*inner, "<parameter name=\"")) {
      const auto key = take_until(*inner, "\">");
      const auto value = take_until(*inner, "</parameter>");
      if (!key || !value) return {};
      arguments[std::string(*key)] = plain_value(tools, name, std::string(*key), *value);
    }
    auto call = make_call(tools, name, std::move(arguments));
    if (!call) return {};
    calls.push_back(std::move(*call));
  }
  return calls;
}

OutputParserPtr minimax_parser(ToolSpecs tools) {
  return marked_parser(kMinimaxMarks, read_minimax, std::move(tools));
}

}  // namespace

extern const ChatFamily kMiniMaxFamily;
const ChatFamily kMiniMaxFamily{"minimax", fits_minimax, kMinimaxMarks.open, minimax_parser};

}  // namespace butterfly::server
