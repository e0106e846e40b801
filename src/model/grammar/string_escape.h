// The escapes of JSON strings, byte by byte.
#pragma once
#include <cstdint>

#include "model/grammar/dfa.h"

namespace butterfly::model::grammar {

// Where in an escape a text is: "\", "\u00", between the halves of a surrogate pair. Halves without a partner
// are refused: most readers of JSON refuse them.
//
// `plain`: only what cannot be written otherwise is escaped (quotes, backslashes, control characters), so
// that a model does not spend six tokens on a letter.
struct StringEscape {
  enum class Result : uint8_t { kBad, kMore, kCharacter };

  bool active() const { return mode != kNone; }
  void begin() { mode = kBackslash; }
  // The next byte of an escape. kCharacter: it is whole and stands for `character`.
  Result feed(uint8_t byte, uint32_t& character);
  // Whether some way to end the escape gives a character in [first, last] for which `possible(first, last)`.
  template <typename Possible>
  bool can_end(Possible&& possible) const;
  // A string begins.
  void reset(bool only_plain) {
    *this = {};
    plain = only_plain;
  }

  enum Mode : uint8_t { kNone, kBackslash, kHex0, kHex1, kHex2, kHex3, kNeedBackslash, kNeedU };
  Mode mode = kNone;
  bool plain = false;
  uint16_t code = 0;  // digits so far
  uint16_t high = 0;  // first half of a pair
};

// True if some character in [first, last] leads from `state` to a state that `alive` accepts.
template <typename Alive>
bool reaches(const Dfa& dfa, uint32_t state, uint32_t first, uint32_t last, Alive&& alive);

}  // namespace butterfly::model::grammar

#include "model/grammar/string_escape-inl.h"
