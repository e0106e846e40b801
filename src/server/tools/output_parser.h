// What a model writes, taken apart while it writes: reasoning, words for the reader, calls of functions.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/grammar/structured_output.h"

namespace butterfly::server {

struct ToolCall {
  std::string id;  // "call_" and random digits
  std::string name;
  std::string arguments;  // JSON text
};

// What became certain with a piece of text.
struct ParsedText {
  std::string reasoning;
  std::string text;
  std::vector<ToolCall> calls;

  void append(ParsedText other);
  bool empty() const { return reasoning.empty() && text.empty() && calls.empty(); }
};

// Feed text as it comes. Nothing that may still become a mark or a call is given out as words. What looks
// like a call and is none (not the model's form, or the name of no tool) is given out as words after all:
// nothing a model wrote is lost. One thread.
class OutputParser {
 public:
  virtual ~OutputParser() = default;
  virtual ParsedText push(std::string_view text) = 0;
  // The end. `cut`: by a bound on its length, so what was begun of a call is neither a call nor words.
  virtual ParsedText flush(bool cut = false) = 0;
};
using OutputParserPtr = std::unique_ptr<OutputParser>;

using ToolSpecs = std::vector<model::ToolSpec>;

}  // namespace butterfly::server
