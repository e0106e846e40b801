// GBNF, llama.cpp's notation for grammars, as trees.
//
//   root ::= "yes" | "no" reason{0,1}   # comment
//   reason ::= ", because " [^\n]+
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "model/grammar/regex_parser.h"

namespace butterfly::model::grammar {

struct GbnfRule {
  std::string name;
  uint32_t root = 0;  // of `nodes`
};

struct GbnfTree {
  std::vector<GbnfRule> rules;
  std::vector<RegexNode> nodes;
  uint32_t root = 0;  // the rule "root"
};

// Throws Error: kInvalidArgument with line and what was expected, kOutOfMemory past the limits.
GbnfTree parse_gbnf(std::string_view text);

}  // namespace butterfly::model::grammar
