// Granite 3: a JSON list behind <|tool_call|>. (Granite 4 writes as Hermes does.)
#include "server/tools/call_text.h"
#include "server/tools/chat_family.h"

namespace butterfly::server {
namespace {

constexpr CallMarks kGraniteMarks{"<|tool_call|>", ""};
const model::ToolFormat kGraniteFormat{
    .begin = "<|tool_call|>[", .end = "]", .between = "", .name_key = "name", .arguments_key = "arguments"};

bool fits_granite(std::string_view source) { return source.find("<|tool_call|>") != std::string_view::npos; }

OutputParserPtr granite_parser(ToolSpecs tools) {
  return marked_parser(kGraniteMarks, read_json_calls, std::move(tools));
}

}  // namespace

extern const ChatFamily kGraniteFamily;
const ChatFamily kGraniteFamily{"granite", fits_granite, kGraniteMarks.open, granite_parser, &kGraniteFormat};

}  // namespace butterfly::server
