// Firefunction: a JSON list behind functools.
#include "server/tools/call_text.h"
#include "server/tools/chat_family.h"

namespace butterfly::server {
namespace {

constexpr CallMarks kFirefunctionMarks{"functools", ""};
const model::ToolFormat kFirefunctionFormat{
    .begin = " functools[", .end = "]", .between = "", .name_key = "name", .arguments_key = "arguments"};

bool fits_firefunction(std::string_view source) {
  return source.find("functools[") != std::string_view::npos;
}

OutputParserPtr firefunction_parser(ToolSpecs tools) {
  return marked_parser(kFirefunctionMarks, read_json_calls, std::move(tools));
}

}  // namespace

extern const ChatFamily kFireFunctionFamily;
const ChatFamily kFireFunctionFamily{"firefunction", fits_firefunction, kFirefunctionMarks.open,
                                     firefunction_parser, &kFirefunctionFormat};

}  // namespace butterfly::server
