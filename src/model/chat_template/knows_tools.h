// Whether a template has a place for tools.
#pragma once
#include <string_view>

namespace butterfly::model {

// True if its statements or expressions speak of `tools`: then it lists them for the model itself. Others are
// helped with a system message.
bool knows_tools(std::string_view template_source);

}  // namespace butterfly::model
