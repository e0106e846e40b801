// A text or a chat as token ids.
#pragma once
#include <cstdint>
#include <vector>

namespace butterfly::train {

struct Document {
  std::vector<int32_t> ids;
  std::vector<bool> learned =
      {};  // for each id; the others are given: they do not count as targets. Empty: all
};

}  // namespace butterfly::train
