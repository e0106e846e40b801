// Where in a text control tokens count.
#pragma once
#include <span>

#include "model/tokenizer/byte_range.h"

namespace butterfly::model {

struct ControlRule {
  bool parse = false;                     // false: nowhere, they are plain text
  std::span<const ByteRange> plain = {};  // where they are not even so; in order, not overlapping
};

}  // namespace butterfly::model
