#include "model/grammar/spelling.h"

#include <algorithm>

namespace butterfly::model::grammar {
namespace {

// What closes something first, then what is short: that comes to an end soonest.
std::vector<uint32_t> in_order(const TokenBits& bits, const TokenIndex& index) {
  std::vector<uint32_t> tokens;
  for (size_t w = 0; w < bits.size(); ++w)
    for (uint64_t word = bits[w]; word != 0; word &= word - 1)
      tokens.push_back(static_cast<uint32_t>(w * 64 + static_cast<size_t>(__builtin_ctzll(word))));
  const auto rank = [&](uint32_t token) {
    const std::string_view piece = index.piece(token);
    return std::pair(piece.find_first_of("]}\"") == piece.npos, piece.size());
  };
  std::stable_sort(tokens.begin(), tokens.end(), [&](uint32_t a, uint32_t b) { return rank(a) < rank(b); });
  return tokens;
}

}  // namespace

bool may_be_spelled(const CompiledGrammar& grammar, const TokenIndex& index, size_t masks_max) {
  struct Place {
    std::unique_ptr<TokenConstraint> text;
    std::vector<uint32_t> tokens;
    size_t next = 0;
  };
  std::vector<Place> places;
  size_t masks = 0;
  const auto enter = [&](std::unique_ptr<TokenConstraint> text) {
    if (text->can_end() || ++masks > masks_max) return true;
    TokenBits bits(mask_words(index.vocab_size()), 0);
    text->mask(bits);
    places.push_back({std::move(text), in_order(bits, index), 0});
    return false;
  };
  if (enter(grammar.start())) return true;
  while (!places.empty()) {
    Place& place = places.back();
    if (place.next == place.tokens.size()) {
      places.pop_back();
      continue;
    }
    auto further = place.text->clone();
    if (!further->accept(static_cast<int32_t>(place.tokens[place.next++]))) continue;
    if (enter(std::move(further))) return true;
  }
  return false;
}

}  // namespace butterfly::model::grammar
