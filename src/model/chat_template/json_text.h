// JSON of values as Python's json.dumps writes it, and values of JSON.
#pragma once
#include <string>
#include <string_view>

#include "model/chat_template/value.h"

namespace butterfly::model::chat_template {

struct JsonStyle {
  bool ascii = false;  // escape everything else
  bool indented = false;
  Text indent;  // of one level
  Text item_end{", ", Origin::kTemplate};
  Text key_end{": ", Origin::kTemplate};
  bool sort_keys = false;
};

Text to_json(Budget& budget, const Value& value, const JsonStyle& style);

// Fails on what is not JSON and on nesting above kValueDepthMax. Integers beyond 64 bits become doubles.
Value parse_json(Budget& budget, std::string_view json);

}  // namespace butterfly::model::chat_template
