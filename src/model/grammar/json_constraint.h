// The state of one JSON text under a schema, token by token.
#pragma once
#include <memory>

#include "model/grammar/json_mask.h"
#include "model/grammar/structured_output.h"

namespace butterfly::model::grammar {

// A schema ready for a vocabulary.
std::shared_ptr<const CompiledGrammar> json_grammar(std::shared_ptr<const JsonMasker> masker);

}  // namespace butterfly::model::grammar
