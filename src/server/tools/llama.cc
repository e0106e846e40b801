// Llama 3 and 4: the whole answer is {"name": ..., "parameters": {...}}, perhaps behind <|python_tag|>, or a
// list of calls as Python writes them.
#include "server/tools/call_text.h"
#include "server/tools/chat_family.h"

namespace butterfly::server {
namespace {

constexpr std::string_view kLlamaTag = "<|python_tag|>";
const model::ToolFormat kLlamaFormat{
    .begin = "", .end = "", .between = "", .name_key = "name", .arguments_key = "parameters"};

bool fits_llama(std::string_view source) {
  const auto has = [&](std::string_view text) { return source.find(text) != std::string_view::npos; };
  return has(kLlamaTag) || (has("<|start_header_id|>") && has("\"parameters\"")) ||
         (has("<|header_start|>") && has("tools"));
}

std::vector<ToolCall> read_llama(std::string_view body, const ToolSpecs& tools) {
  auto calls = read_json_calls(body, tools);
  return calls.empty() ? read_python_calls(body, tools) : calls;
}

OutputParserPtr llama_parser(ToolSpecs tools) {
  return whole_parser(kLlamaTag, read_llama, std::move(tools));
}

}  // namespace

extern const ChatFamily kLlamaFamily;
const ChatFamily kLlamaFamily{"llama", fits_llama, kLlamaTag, llama_parser, &kLlamaFormat};

}  // namespace butterfly::server
