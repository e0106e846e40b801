// GBNF grammars as masks over tokens.
#pragma once
#include <memory>
#include <string_view>

#include "model/grammar/structured_output.h"
#include "model/grammar/token_index.h"

namespace butterfly::model::grammar {

// Throws Error as GrammarCompiler::compile() says.
std::shared_ptr<const CompiledGrammar> gbnf_grammar(std::string_view text,
                                                    std::shared_ptr<const TokenIndex> index);

}  // namespace butterfly::model::grammar
