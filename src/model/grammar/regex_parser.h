// A regular expression as a tree.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/grammar/code_points.h"

namespace butterfly::model::grammar {

struct RegexNode {
  // kRule is only in grammars: another rule, whose index `min` is.
  enum class Kind { kEmpty, kSet, kConcat, kAlternatives, kRepeat, kBegin, kEnd, kRule };
  Kind kind = Kind::kEmpty;
  CodePointSet set;                // kSet
  std::vector<uint32_t> children;  // indices into RegexTree::nodes
  uint32_t min = 0, max = 0;       // kRepeat; max kNoMax: any number
  static constexpr uint32_t kNoMax = ~uint32_t{0};
};

struct RegexTree {
  // "^(?=…)(?!…)": what must, or must not, follow the begin of the text.
  struct LookAhead {
    uint32_t root = 0;
    bool negative = false;
  };
  std::vector<RegexNode> nodes;
  std::vector<LookAhead> look_aheads;
  uint32_t root = 0;
};

// Throws Error as regex_dfa() says.
RegexTree parse_regex(std::string_view expression);

// Escapes that stand for sets of characters: 'd' -> [0-9]; empty for other letters.
CodePointSet class_escape(char letter);
// Unicode general category or group ("Lu", "L", "Letter"); empty if unknown.
CodePointSet unicode_category(std::string_view name);

}  // namespace butterfly::model::grammar
