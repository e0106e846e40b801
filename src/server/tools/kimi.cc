// Kimi K2: a section of calls, each functions.NAME:NUMBER and JSON.
#include "server/tools/call_text.h"
#include "server/tools/chat_family.h"

namespace butterfly::server {
namespace {

constexpr CallMarks kKimiMarks{"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"};

bool fits_kimi(std::string_view source) {
  return source.find("<|tool_call_argument_begin|>") != std::string_view::npos;
}

std::vector<ToolCall> read_kimi(std::string_view body, const ToolSpecs& tools) {
  std::vector<ToolCall> calls;
  while (take_until(body, "<|tool_call_begin|>")) {
    const auto id = take_until(body, "<|tool_call_argument_begin|>");
    if (!id) return {};
    const auto arguments = take_until(body, "<|tool_call_end|>");
    if (!arguments) return {};
    std::string_view name = trimmed(*id);
    take_front(name, "functions.");
    name = name.substr(0, name.rfind(':'));
    auto call = make_call(tools, std::string(name), *arguments);
    if (!call) return {};
    call->id = std::string(trimmed(*id));  // its templates write it down again as it was
    calls.push_back(std::move(*call));
  }
  return calls;
}

OutputParserPtr kimi_parser(ToolSpecs tools) {
  return marked_parser(kKimiMarks, read_kimi, std::move(tools));
}

}  // namespace

extern const ChatFamily kKimiFamily;
const ChatFamily kKimiFamily{"kimi", fits_kimi, kKimiMarks.open, kimi_parser};

}  // namespace butterfly::server
