// Whether a vocabulary has the tokens for some text that a grammar allows.
#pragma once
#include "model/grammar/structured_output.h"
#include "model/grammar/token_index.h"

namespace butterfly::model::grammar {

// Vocabularies with every byte spell everything, and most have them. In others (braces that no token writes,
// say) rules may lead into a dead end: that is better seen when a request comes than when half of its answer
// is there.
//
// Looks for one whole text, depth first. False: there is none. True: there is one, or none was found within
// `masks_max` masks.
bool may_be_spelled(const CompiledGrammar& grammar, const TokenIndex& index, size_t masks_max = 200);

}  // namespace butterfly::model::grammar
