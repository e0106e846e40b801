// Finds calls of functions in what a model writes, while it writes.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/chat_template/tool_style.h"

namespace butterfly::server {

struct ToolCall {
  std::string id;  // "call_" and random digits; Mistral's templates want nine letters and digits
  std::string name;
  std::string arguments;  // JSON text
};

// What became certain with a piece of text: words for the reader, and whole calls.
struct ToolDelta {
  std::string text;
  std::vector<ToolCall> calls;
  void append(ToolDelta other);
};

// Feed text as it comes. Nothing that may still become a call is given out as words. What looks like a call
// and is none (no JSON, or the name of no tool) is given out as words after all: nothing a model wrote is
// lost. One thread.
class ToolParser {
 public:
  virtual ~ToolParser() = default;
  virtual ToolDelta push(std::string_view text) = 0;
  virtual ToolDelta flush() = 0;
};

// `names`: the tools there are.
std::unique_ptr<ToolParser> make_tool_parser(model::ToolStyle style, std::vector<std::string> names);

// A call object {"name": ..., "arguments" or "parameters": {...}}, or an array of them. Empty if it is
// neither.
std::vector<ToolCall> read_calls(std::string_view json, const std::vector<std::string>& names);

}  // namespace butterfly::server
