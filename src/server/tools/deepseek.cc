// DeepSeek: V3 and R1 write function, a separator, the name and JSON in a code block; V3.1 the name, the
// separator and JSON.
#include "server/tools/call_text.h"
#include "server/tools/chat_family.h"

namespace butterfly::server {
namespace {

constexpr CallMarks kDeepseekMarks{"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"};

bool fits_deepseek(std::string_view source) {
  return source.find("<｜tool▁call▁begin｜>") != std::string_view::npos;
}

std::vector<ToolCall> read_deepseek(std::string_view body, const ToolSpecs& tools) {
  std::vector<ToolCall> calls;
  while (take_until(body, "<｜tool▁call▁begin｜>")) {
    auto call_text = take_until(body, "<｜tool▁call▁end｜>");
    if (!call_text) return {};
    const auto front = take_until(*call_text, "<｜tool▁sep｜>");
    if (!front) return {};
    std::string_view name = trimmed(*front), arguments = *call_text;
    if (name == "function") {  // what comes then is the name
      const auto line = take_until(arguments, "\n");
      if (!line) return {};
      name = trimmed(*line);
    }
    arguments = trimmed(arguments);
    take_front(arguments, "```json");
    if (arguments.ends_with("```")) arguments.remove_suffix(3);
    auto call = make_call(tools, std::string(name), arguments);
    if (!call) return {};
    calls.push_back(std::move(*call));
  }
  return calls;
}

OutputParserPtr deepseek_parser(ToolSpecs tools) {
  return marked_parser(kDeepseekMarks, read_deepseek, std::move(tools));
}

}  // namespace

extern const ChatFamily kDeepSeekFamily;
const ChatFamily kDeepSeekFamily{"deepseek", fits_deepseek, kDeepseekMarks.open, deepseek_parser};

}  // namespace butterfly::server
