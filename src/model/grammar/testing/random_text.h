// For tests: texts that a random but willing model would write under a grammar.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/grammar/testing/small_vocabulary.h"

namespace butterfly::model::grammar {

// Steers a text to its end: what closes something comes first, then what lets something be closed behind it.
class EndSeeker {
 public:
  explicit EndSeeker(const TokenIndex& index) : index_(index) {
    for (uint32_t token = 0; token < index.vocab_size(); ++token)
      if (index.piece(token).size() == 1 && !index.ends_text(token)) bytes_.push_back(token);
  }

  // A token that the mask allows and that leads to an end; nothing: none is seen from here.
  std::optional<uint32_t> next(const TokenConstraint& constraint, const TokenBits& mask, Draws& rng) const {
    if (const auto closing = closers(mask); !closing.empty()) return closing[rng.below(closing.size())];
    // From a random place on, so that several ways are tried in turn.
    const size_t from = bytes_.empty() ? 0 : rng.below(bytes_.size());
    for (size_t i = 0; i < bytes_.size(); ++i) {
      const uint32_t token = bytes_[(from + i) % bytes_.size()];
      if (!has(mask, token)) continue;
      const auto behind = constraint.clone();
      if (!behind->accept(static_cast<int32_t>(token))) continue;
      if (behind->can_end() || !closers(mask_of(*behind, index_)).empty()) return token;
    }
    return std::nullopt;
  }

 private:
  static bool has(const TokenBits& mask, uint32_t token) { return mask[token / 64] >> (token % 64) & 1; }
  // Inside of a string both brackets are letters, and only a quote closes.
  std::vector<uint32_t> closers(const TokenBits& mask) const {
    bool brace = false, bracket = false;
    for (const uint32_t token : bytes_) {
      brace = brace || (index_.piece(token) == "}" && has(mask, token));
      bracket = bracket || (index_.piece(token) == "]" && has(mask, token));
    }
    const char* const wanted = brace && bracket ? "\"" : "]}\"";
    std::vector<uint32_t> found;
    for (const uint32_t token : tokens_of(mask))
      if (!index_.ends_text(token) && index_.piece(token).find_first_of(wanted) != std::string_view::npos)
        found.push_back(token);
    return found;
  }

  const TokenIndex& index_;
  std::vector<uint32_t> bytes_;  // tokens of one byte
};

// Random for `free_steps` tokens, then steered. Begins with "DEAD END", "REFUSED" or "NO END" where it came
// to none.
inline std::string random_text(const CompiledGrammar& grammar, const TokenIndex& index, Draws& rng,
                               const EndSeeker& seeker, int free_steps = 20, int steps_max = 3000) {
  const auto constraint = grammar.start();
  std::string text;
  for (int step = 0; step < steps_max; ++step) {
    if (constraint->can_end() && (step > free_steps || rng.below(4) == 0)) return text;
    const TokenBits mask = mask_of(*constraint, index);
    auto tokens = tokens_of(mask);
    std::erase_if(tokens, [&](uint32_t token) { return index.ends_text(token); });
    if (tokens.empty()) return constraint->can_end() ? text : "DEAD END: " + text;
    uint32_t token = tokens[rng.below(tokens.size())];
    if (step > free_steps && rng.below(3) != 0) token = seeker.next(*constraint, mask, rng).value_or(token);
    if (!constraint->accept(static_cast<int32_t>(token))) return "REFUSED: " + text;
    text += index.piece(token);
  }
  return "NO END: " + text;
}

}  // namespace butterfly::model::grammar
