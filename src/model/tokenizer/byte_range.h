// A stretch of a text, in bytes.
#pragma once
#include <cstddef>

namespace butterfly::model {

struct ByteRange {
  size_t begin = 0;
  size_t end = 0;  // one past the last
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

}  // namespace butterfly::model
