// Texts of one automaton as masks over tokens: regular expressions.
#pragma once
#include <memory>
#include <string_view>

#include "model/grammar/structured_output.h"
#include "model/grammar/token_index.h"

namespace butterfly::model::grammar {

// The whole text matches the expression, whether it has ^ and $ or not. Throws Error as regex_dfa() does, and
// kInvalidArgument if no text matches.
std::shared_ptr<const CompiledGrammar> regex_grammar(std::string_view expression,
                                                     std::shared_ptr<const TokenIndex> index);

}  // namespace butterfly::model::grammar
