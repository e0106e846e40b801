// For tests: texts that a random but willing model would write under a grammar.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "model/grammar/testing/small_vocabulary.h"

namespace butterfly::model::grammar {

// Walks until the text may end; prefers ends, so that containers close.
inline std::string random_text(const CompiledGrammar& grammar, const TokenIndex& index, Draws& rng) {
  const auto constraint = grammar.start();
  std::string text;
  for (int step = 0; step < 3000; ++step) {
    if (constraint->can_end() && (step > 20 || rng.below(4) == 0)) return text;
    auto tokens = tokens_of(mask_of(*constraint, index));
    std::erase_if(tokens, [&](uint32_t token) { return index.ends_text(token); });
    if (tokens.empty()) return constraint->can_end() ? text : "DEAD END: " + text;
    // Late in the text, what closes something comes first.
    std::vector<uint32_t> closing;
    if (step > 20)
      for (const uint32_t token : tokens)
        if (std::string_view piece = index.piece(token); piece.find_first_of("]}\"") != piece.npos)
          closing.push_back(token);
    const auto& from = closing.empty() || rng.below(3) == 0 ? tokens : closing;
    const uint32_t token = from[rng.below(from.size())];
    if (!constraint->accept(static_cast<int32_t>(token))) return "REFUSED: " + text;
    text += index.piece(token);
  }
  return "NO END: " + text;
}

}  // namespace butterfly::model::grammar
