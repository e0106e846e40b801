// The schema of calls of some functions, as a model writes them.
#pragma once
#include <span>
#include <string>

#include "model/grammar/structured_output.h"

namespace butterfly::model::grammar {

// An object with the name of one of the tools and arguments that fit it, in this order. Throws Error
// kInvalidArgument for no tools, names that repeat, or parameters that are not JSON.
std::string tool_schema(std::span<const ToolSpec> tools, const ToolFormat& format);

}  // namespace butterfly::model::grammar
