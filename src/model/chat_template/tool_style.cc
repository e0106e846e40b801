#include "model/chat_template/tool_style.h"

namespace butterfly::model {

ToolStyle tool_style_of(std::string_view source) {
  const auto has = [&](std::string_view text) { return source.find(text) != std::string_view::npos; };
  if (has("[TOOL_CALLS]")) return ToolStyle::kMistral;
  if (has("<tool_call>")) return ToolStyle::kHermes;
  if (has("<|python_tag|>") || (has("<|start_header_id|>") && has("\"parameters\"")))
    return ToolStyle::kLlama3;
  return ToolStyle::kGeneric;
}

}  // namespace butterfly::model
