// Mistral: [TOOL_CALLS] and a JSON list; later ones [TOOL_CALLS]NAME[ARGS]{...}, once for each call.
#include "base/secret.h"
#include "server/tools/call_text.h"
#include "server/tools/chat_family.h"

namespace butterfly::server {
namespace {

constexpr CallMarks kMistralMarks{"[TOOL_CALLS]", ""};
const model::ToolFormat kMistralFormat{
    .begin = "[TOOL_CALLS][", .end = "]", .between = "", .name_key = "name", .arguments_key = "arguments"};

bool fits_mistral(std::string_view source) {
  return source.find(kMistralMarks.open) != std::string_view::npos;
}

// Their templates take nothing but nine letters and digits.
std::vector<ToolCall> with_ids(std::vector<ToolCall> calls) {
  for (ToolCall& call : calls) call.id = random_hex(9);
  return calls;
}

std::vector<ToolCall> read_mistral(std::string_view body, const ToolSpecs& tools) {
  if (auto calls = read_json_calls(body, tools); !calls.empty()) return with_ids(std::move(calls));
  const size_t brace = body.find('{');
  std::string_view name = body.substr(0, std::min(body.find("[ARGS]"), brace));
  name = trimmed(name.substr(0, name.find("[CALL_ID]")));
  if (brace == body.npos) return {};
  auto call = make_call(tools, std::string(name), trimmed(body.substr(brace)));
  if (!call) return {};
  return with_ids({std::move(*call)});
}

OutputParserPtr mistral_parser(ToolSpecs tools) {
  return marked_parser(kMistralMarks, read_mistral, std::move(tools));
}

}  // namespace

extern const ChatFamily kMistralFamily;
const ChatFamily kMistralFamily{"mistral", fits_mistral, kMistralMarks.open, mistral_parser, &kMistralFormat};

}  // namespace butterfly::server
