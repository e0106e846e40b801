// Calls as texts: what the forms of different models have in common.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/json.h"
#include "server/tools/output_parser.h"

namespace butterfly::server {

// A call of a tool that there is, with an id; nothing if there is none of this name, or the arguments are no
// object. Arguments that are the text of an object count as that object: some models write JSON in JSON.
std::optional<ToolCall> make_call(const ToolSpecs& tools, const std::string& name, Json arguments);
std::optional<ToolCall> make_call(const ToolSpecs& tools, const std::string& name, std::string_view json);

// An object {"name": ..., "arguments" or "parameters": {...}}, or an array of them. Empty if it is neither,
// or one of them is no call.
std::vector<ToolCall> read_json_calls(std::string_view text, const ToolSpecs& tools);

// f(a=1, b="x"), or a list of such calls in brackets, as Python writes them. Empty if it is neither.
std::vector<ToolCall> read_python_calls(std::string_view text, const ToolSpecs& tools);

// A value that stands in a text without quotes: what the tool's schema says it is, a string where that says
// nothing else and it is no JSON.
Json plain_value(const ToolSpecs& tools, const std::string& tool, const std::string& parameter,
                 std::string_view text);

// White space at both ends removed.
std::string_view trimmed(std::string_view text);
// Takes what is before `mark` and the mark itself from the front; nothing if there is no such mark.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view mark);
// Takes `front` from the front, if it is there.
bool take_front(std::string_view& text, std::string_view front);
// The longest end of `text` that begins `mark` without being all of it.
size_t begun(std::string_view text, std::string_view mark);

}  // namespace butterfly::server
