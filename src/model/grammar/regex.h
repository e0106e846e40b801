// Regular expressions as JSON Schema's "pattern" has them (a subset of ECMA-262), as automata over UTF-8.
#pragma once
#include <string_view>

#include "model/grammar/dfa.h"

namespace butterfly::model::grammar {

// The texts in which the expression is found somewhere (so "^a" and "a" differ), label 1.
//
// Throws Error: kInvalidArgument for what is no expression, kUnsupported for back-references, word boundaries
// and look-around other than look-ahead at the front of the whole expression, kOutOfMemory past the limits.
Dfa regex_dfa(std::string_view expression);

}  // namespace butterfly::model::grammar
