// Parsers for forms in which a mark says what follows: calls between two marks, reasoning between two marks.
#pragma once
#include "server/tools/output_parser.h"

namespace butterfly::server {

// What is between the marks, as calls. Empty: it is none.
using ReadCalls = std::vector<ToolCall> (*)(std::string_view body, const ToolSpecs& tools);

// `close` empty: a call goes on to the end of the text, or the next `open`.
struct CallMarks {
  std::string_view open, close;
};

OutputParserPtr marked_parser(const CallMarks& marks, ReadCalls read, ToolSpecs tools);

// The answer as a whole is a call, or it is words: known by its first character. `tag` may stand before it.
OutputParserPtr whole_parser(std::string_view tag, ReadCalls read, ToolSpecs tools);

// Words only.
OutputParserPtr words_parser();

// Splits off what is between the marks and gives the rest to `then`. `inside`: the prompt has opened it.
// Blanks at the borders are nobody's words.
struct ReasoningMarks {
  std::string_view open, close;
};
OutputParserPtr reasoning_parser(const ReasoningMarks& marks, bool inside, OutputParserPtr then);

}  // namespace butterfly::server
