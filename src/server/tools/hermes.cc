// Hermes, Qwen 2.5 and 3, SmolLM3, Granite 4 and many others: JSON between <tool_call> and </tool_call>.
// And models whose template knows nothing of tools: a system message teaches them this form.
#include "server/tools/call_text.h"
#include "server/tools/chat_family.h"

namespace butterfly::server {
namespace {

constexpr CallMarks kHermesMarks{"<tool_call>", "</tool_call>"};
const model::ToolFormat kHermesFormat;

bool fits_hermes(std::string_view source) { return source.find(kHermesMarks.open) != std::string_view::npos; }
bool always(std::string_view) { return true; }

OutputParserPtr hermes_parser(ToolSpecs tools) {
  return marked_parser(kHermesMarks, read_json_calls, std::move(tools));
}

}  // namespace

extern const ChatFamily kHermesFamily, kTaughtFamily;
const ChatFamily kHermesFamily{"hermes", fits_hermes, kHermesMarks.open, hermes_parser, &kHermesFormat};
const ChatFamily kTaughtFamily{"taught", always, kHermesMarks.open, hermes_parser, &kHermesFormat};

}  // namespace butterfly::server
