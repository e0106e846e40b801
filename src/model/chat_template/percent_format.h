// Python's "..." % values and "...".format(values), as far as templates use them.
#pragma once
#include <string>
#include <string_view>

#include "model/chat_template/value.h"

namespace butterfly::model::chat_template {

// `values` is a tuple, a dict for %(name)s, or one value.
Text percent_format(Budget& budget, TextView format, const Value& values);
// {} {0} {name}; formats after a colon are refused.
Text brace_format(Budget& budget, TextView format, const Arguments& arguments);

}  // namespace butterfly::model::chat_template
