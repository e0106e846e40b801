// How families of models write down that they think, and that they want a function called. Adding one: a file
// with its row, a declaration in chat_family_table.cc, one line in the table.
#pragma once
#include <span>
#include <string_view>

#include "server/tools/marked_parser.h"
#include "server/tools/output_parser.h"

namespace butterfly::server {

struct ChatFamily {
  std::string_view name;  // "hermes"
  // Whether a model with this template is one of them.
  bool (*fits)(std::string_view template_source);
  // Marks of calls. Where one of them is a control token it must be shown to be seen, and cannot be asked for
  // by rules about text.
  std::string_view mark;
  OutputParserPtr (*parser)(ToolSpecs tools);
  // How calls can be held to their schemas: JSON between two texts. Null: by no rules that we have.
  const model::ToolFormat* format = nullptr;
  // Reasoning is part of the form itself: the parser splits it off.
  bool reasons_itself = false;
};

std::span<const ChatFamily* const> chat_families();
// The first that fits; the last one fits always.
const ChatFamily& family_of(std::string_view template_source);
const ChatFamily& family_by_name(std::string_view name);

// The marks around reasoning that a template mentions; null: none.
const ReasoningMarks* reasoning_marks_of(std::string_view template_source);

// What is to be made of one answer.
struct OutputForm {
  const ChatFamily* family = nullptr;         // null: nothing but words
  const ReasoningMarks* reasoning = nullptr;  // null: not split off
  bool inside = false;                        // the prompt has opened the reasoning
  bool calls = false;                         // there are tools
  ToolSpecs tools;
};
OutputParserPtr make_output_parser(const OutputForm& form);

}  // namespace butterfly::server
