// Rows of logits of every shape that sampling meets, for tests.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/rng.h"

namespace butterfly::model {

struct NamedRow {
  std::string name;
  std::vector<float> logits;
};

// Of `size` tokens. Wide, flat, all equal, few distinct values, peaked as trained models have them, one token
// far above the others, masked, and magnitudes at which differences of floats overflow or vanish.
inline std::vector<NamedRow> rows_of_every_shape(size_t size, uint64_t seed) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const auto row = [&](const char* name, auto&& logit) {
    NamedRow made{name, std::vector<float>(size)};
    for (size_t i = 0; i < size; ++i) made.logits[i] = logit(i, random_normal(seed, 1, i));
    return made;
  };
  return {
      row("wide", [](size_t, float x) { return 4 * x; }),
      row("flat", [](size_t, float x) { return 0.05f * x; }),
      row("equal", [](size_t, float) { return 2.5f; }),
      row("zeros of both signs", [](size_t i, float) { return i % 3 == 0 ? -0.0f : 0.0f; }),
      row("ties", [](size_t, float x) { return std::round(4 * x) / 4; }),
      row("peaked", [](size_t i, float x) { return 1.5f * x + (i % 499 == 7 ? 10 : 0); }),
      row("one far above", [&](size_t i, float x) { return i == size / 3 ? 90 : x; }),
      row("masked", [&](size_t i, float x) { return i % 5 == 1 || i == size - 1 ? 3 * x : -kInf; }),
      row("masked but one piece", [&](size_t i, float x) { return i < size / 7 || i == 0 ? x : -kInf; }),
      row("huge", [](size_t, float x) { return 6e37f * x; }),
      row("tiny", [](size_t, float x) { return 1e-44f * std::round(x); }),
      row("rising", [&](size_t i, float) { return 20 * static_cast<float>(i) / static_cast<float>(size); }),
  };
}

}  // namespace butterfly::model
