// How a model writes down that it wants a function called.
#pragma once
#include <string_view>

namespace butterfly::model {

enum class ToolStyle {
  kHermes,   // <tool_call>{"name": ..., "arguments": {...}}</tool_call>
  kMistral,  // [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]
  kLlama3,   // the whole answer is {"name": ..., "parameters": {...}}, perhaps behind <|python_tag|>
  kGeneric,  // hermes, taught by a system message: the template knows nothing of tools
};
ToolStyle tool_style_of(std::string_view template_source);

}  // namespace butterfly::model
