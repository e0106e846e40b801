// Random choices of a grammar: the n-th choice of item i depends on (seed, i, n) alone.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "base/rng.h"

namespace butterfly::train {

// The choices of one item, one after the other. One thread.
class Draw {
 public:
  Draw(uint64_t seed, uint64_t item) : seed_(seed), item_(item) {}

  // In [0, count).
  uint64_t below(uint64_t count) { return random_u64(seed_, item_, next_++) % count; }
  int between(int first, int last) {
    return first + static_cast<int>(below(static_cast<uint64_t>(last - first + 1)));
  }
  bool chance(int percent) { return below(100) < static_cast<uint64_t>(percent); }

  template <typename T, size_t N>
  const T& pick(const std::array<T, N>& choices) {
    return choices[below(N)];
  }
  // Another one than `not_this`.
  template <typename T, size_t N>
  const T& pick_other(const std::array<T, N>& choices, const T& not_this) {
    size_t at = below(N);
    while (choices[at] == not_this) at = (at + 1) % N;
    return choices[at];
  }

 private:
  uint64_t seed_, item_;
  uint64_t next_ = 0;
};

}  // namespace butterfly::train
