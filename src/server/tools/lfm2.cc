// LFM2: a list of calls as Python writes them, or JSON, between <|tool_call_start|> and <|tool_call_end|>.
#include "server/tools/call_text.h"
#include "server/tools/chat_family.h"

namespace butterfly::server {
namespace {

constexpr CallMarks kLfm2Marks{"<|tool_call_start|>", "<|tool_call_end|>"};

bool fits_lfm2(std::string_view source) {
  return source.find("<|tool_list_start|>") != std::string_view::npos ||
         source.find(kLfm2Marks.open) != std::string_view::npos;
}

std::vector<ToolCall> read_lfm2(std::string_view body, const ToolSpecs& tools) {
  auto calls = read_json_calls(body, tools);
  return calls.empty() ? read_python_calls(body, tools) : calls;
}

OutputParserPtr lfm2_parser(ToolSpecs tools) {
  return marked_parser(kLfm2Marks, read_lfm2, std::move(tools));
}

}  // namespace

extern const ChatFamily kLfm2Family;
const ChatFamily kLfm2Family{"lfm2", fits_lfm2, kLfm2Marks.open, lfm2_parser};

}  // namespace butterfly::server
