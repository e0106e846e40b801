// Nemotron Nano 2: a JSON list between <TOOLCALL> and </TOOLCALL>. (Nemotron 3 writes as Qwen3-Coder does.)
#include "server/tools/call_text.h"
#include "server/tools/chat_family.h"

namespace butterfly::server {
namespace {

constexpr CallMarks kNemotronMarks{"<TOOLCALL>", "</TOOLCALL>"};
const model::ToolFormat kNemotronFormat{.begin = "<TOOLCALL>[",
                                        .end = "]</TOOLCALL>",
                                        .between = "",
                                        .name_key = "name",
                                        .arguments_key = "arguments"};

bool fits_nemotron(std::string_view source) { return source.find("<TOOLCALL>") != std::string_view::npos; }

OutputParserPtr nemotron_parser(ToolSpecs tools) {
  return marked_parser(kNemotronMarks, read_json_calls, std::move(tools));
}

}  // namespace

extern const ChatFamily kNemotronFamily;
const ChatFamily kNemotronFamily{"nemotron", fits_nemotron, kNemotronMarks.open, nemotron_parser,
                                 &kNemotronFormat};

}  // namespace butterfly::server
