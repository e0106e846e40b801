// Bodies of string_escape.h.
#pragma once
#include <algorithm>
#include <vector>

#include "model/grammar/code_points.h"
#include "model/grammar/string_escape.h"

namespace butterfly::model::grammar {

template <typename Possible>
bool StringEscape::can_end(Possible&& possible) const {
  const auto pair = [&](uint32_t high_first, uint32_t high_last, uint32_t low_first, uint32_t low_last) {
    return possible(0x10000 + ((high_first - 0xD800) << 10) + (low_first - 0xDC00),
                    0x10000 + ((high_last - 0xD800) << 10) + (low_last - 0xDC00));
  };
  constexpr uint32_t kControlMax = 0x1f;
  if (mode == kBackslash && plain)
    return possible(0u, kControlMax) || possible(uint32_t{'"'}, uint32_t{'"'}) ||
           possible(uint32_t{'\\'}, uint32_t{'\\'});
  if (mode == kBackslash) return possible(0u, kCodePointMax);
  if (mode == kNeedBackslash || mode == kNeedU) return pair(high, high, 0xDC00, 0xDFFF);
  const int missing = 4 - (mode - kHex0);
  const uint32_t first = static_cast<uint32_t>(code) << (4 * missing);
  const uint32_t last = first + (1u << (4 * missing)) - 1;
  if (plain) return first <= kControlMax && possible(first, std::min(last, kControlMax));
  if (high != 0) {
    const uint32_t low_first = std::max(first, 0xDC00u), low_last = std::min(last, 0xDFFFu);
    return low_first <= low_last && pair(high, high, low_first, low_last);
  }
  // Any character of the plane, and those whose first half is in the range.
  if (first < 0xD800 && possible(first, std::min(last, 0xD7FFu))) return true;
  if (last > 0xDFFF && possible(std::max(first, 0xE000u), last)) return true;
  const uint32_t high_first = std::max(first, 0xD800u), high_last = std::min(last, 0xDBFFu);
  return high_first <= high_last && pair(high_first, high_last, 0xDC00, 0xDFFF);
}

template <typename Alive>
bool reaches(const Dfa& dfa, uint32_t state, uint32_t first, uint32_t last, Alive&& alive) {
  if (dfa.sink[state]) return alive(state);
  for (const ByteSequence& sequence : utf8_sequences(CodePointSet::of(first, last))) {
    std::vector<uint32_t> states{state}, next;
    for (int i = 0; i < sequence.count; ++i) {
      next.clear();
      const ByteRange range = sequence.bytes[static_cast<size_t>(i)];
      for (const uint32_t q : states)
        for (int byte = range.first; byte <= range.last; ++byte)
          if (const uint32_t to = dfa.step(q, static_cast<uint8_t>(byte));
              to != 0 && std::find(next.begin(), next.end(), to) == next.end())
            next.push_back(to);
      states.swap(next);
    }
    if (std::any_of(states.begin(), states.end(), alive)) return true;
  }
  return false;
}

}  // namespace butterfly::model::grammar
