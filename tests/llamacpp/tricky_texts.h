// Texts that show where a pre-tokenizer cuts, and a vocabulary whose merges reach across every such place.
#pragma once
#include <string>
#include <vector>

#include "model/metadata/metadata.h"

namespace butterfly::testing {

// The same for every call: contractions, numbers, white space, scripts, marks and symbols, next to one
// another.
std::vector<std::string> tricky_texts();

// tokenizer.ggml.* keys of a byte-level BPE vocabulary that is learned from `texts` without cutting them at
// all, so that ids change wherever a cut does. `raw`: in characters, with U+2581 for spaces, instead of in
// byte letters, and no token has a line break beside other characters.
void add_learned_vocabulary(const std::vector<std::string>& texts, bool raw, model::Metadata& metadata);

}  // namespace butterfly::testing
