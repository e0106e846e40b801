// For fuzz targets: compiles the front of an input, and lets the rest of it choose tokens.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "model/grammar/testing/small_vocabulary.h"

namespace butterfly::model::grammar {

// `steps_max`: tokens; masks are what a run takes its time for. `may_get_lost`: rules may be too ambiguous to
// follow.
template <typename Compile>
void fuzz_walk(const uint8_t* data, size_t size, const TokenIndex& index, size_t steps_max, bool may_get_lost,
               Compile&& compile) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = std::min(input.find('\0'), input.size());
  std::shared_ptr<const CompiledGrammar> grammar;
  try {
    grammar = compile(input.substr(0, zero));
  } catch (const Error&) {
    return;
  }
  const auto constraint = grammar->start();
  TokenBits bits(mask_words(index.vocab_size()), 0);
  const std::string_view choices = input.substr(std::min(zero + 1, input.size()));
  for (size_t i = 0; i < std::min(choices.size(), steps_max); ++i) {
    constraint->mask(bits);
    std::vector<uint32_t> tokens = tokens_of(bits);
    std::erase_if(tokens, [&](uint32_t token) { return index.ends_text(token); });
    if (tokens.empty()) {
      // With every byte in the vocabulary nothing leads into a dead end.
      if (!constraint->can_end() && !may_get_lost) std::abort();
      return;
    }
    const auto choice = static_cast<uint8_t>(choices[i]);
    // A token that may be anything must be accepted exactly if the mask has it.
    const uint32_t any =
        (choice * 37u + static_cast<uint32_t>(i)) % static_cast<uint32_t>(index.vocab_size());
    const bool allowed = bits[any / 64] >> (any % 64) & 1;
    if (!index.ends_text(any) && constraint->clone()->accept(static_cast<int32_t>(any)) != allowed)
      std::abort();
    if (!constraint->accept(static_cast<int32_t>(tokens[choice % tokens.size()]))) std::abort();
  }
}

}  // namespace butterfly::model::grammar
