#include "model/grammar/token_index.h"

#include <algorithm>
#include <array>
#include <map>

#include "model/grammar/dfa.h"
#include "model/grammar/string_escape.h"
#include "model/sampling/token_constraint.h"

namespace butterfly::model::grammar {

TokenIndex::TokenIndex(const Tokenizer& tokenizer) {
  for (size_t i = 0; i < tokenizer.vocab_size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    pieces_.emplace_back(tokenizer.piece(id));
    if (tokenizer.is_end_of_generation(id)) ends_.push_back(static_cast<uint32_t>(i));
  }
  build();
}

TokenIndex::TokenIndex(std::vector<std::string> pieces, std::vector<uint32_t> ends)
    : pieces_(std::move(pieces)), ends_(std::move(ends)) {
  build();
}

void TokenIndex::build() {
  ends_text_.assign(pieces_.size(), false);
  for (const uint32_t token : ends_) ends_text_[token] = true;
  std::vector<std::pair<std::string_view, uint32_t>> entries;
  for (uint32_t i = 0; i < pieces_.size(); ++i)
    if (!ends_text_[i]) entries.emplace_back(pieces_[i], i);
  std::array<bool, 256> alone{};
  for (const auto& [piece, token] : entries)
    if (piece.size() == 1) alone[static_cast<uint8_t>(piece[0])] = true;
  // Bytes that no UTF-8 text has, and most control characters, are in nobody's rules.
  spells_everything_ = alone['\n'];
  for (int byte = 0x20; byte <= 0xf4; ++byte)
    if (byte != 0x7f && byte != 0xc0 && byte != 0xc1) spells_everything_ &= alone[static_cast<size_t>(byte)];
  trie_ = TokenTrie(std::move(entries));
  sort_into_strings();
}

void TokenIndex::sort_into_strings() {
  content_.assign(mask_words(pieces_.size()), 0);
  plain_content_ = content_;
  std::map<std::string_view, uint32_t> rests{{std::string_view(), 0}};
  const Dfa& any = any_text();
  for (uint32_t token = 0; token < pieces_.size(); ++token) {
    const std::string_view piece = pieces_[token];
    if (piece.empty() || ends_text_[token]) continue;
    StringEscape escape, plain_escape;
    plain_escape.plain = true;
    bool plain = true;
    uint32_t state = any.start, characters = 0;
    size_t i = 0;
    bool good = true;
    for (; i < piece.size() && good; ++i) {
      const auto byte = static_cast<uint8_t>(piece[i]);
      if (escape.active()) {
        uint32_t character = 0;
        const auto result = escape.feed(byte, character);
        good = result != StringEscape::Result::kBad;
        plain = plain && plain_escape.feed(byte, character) != StringEscape::Result::kBad;
        continue;
      }
      if (byte == '"') break;
      if (byte == '\\') {
        good = any.label[state] != 0;  // not inside of a character
        escape.begin();
        plain_escape.begin();
        ++characters;
        continue;
      }
      state = any.step(state, byte);
      good = state != 0 && byte >= 0x20;
      characters += (byte & 0xC0) != 0x80;
    }
    if (!good) continue;
    if (i == piece.size()) {
      set_bit(content_, token);
      if (plain) set_bit(plain_content_, token);
      content_lengths_.emplace_back(characters, token);
    } else if (any.label[state] != 0 && i < 0xFFFF) {
      const auto [found, is_new] =
          rests.try_emplace(piece.substr(i + 1), static_cast<uint32_t>(rests.size()));
      const auto index = static_cast<uint32_t>(exits_.size());
      exits_by_content_[piece.substr(0, i)].push_back(index);
      if (piece.substr(0, i).find('\\') != piece.npos || piece.substr(i).find(',') != piece.npos)
        odd_exits_.push_back(index);
      exits_.push_back(
          {token, static_cast<uint16_t>(i), static_cast<uint16_t>(characters), found->second, plain});
    }
  }
  std::sort(content_lengths_.begin(), content_lengths_.end());
  std::vector<std::pair<std::string_view, uint32_t>> entries(rests.begin(), rests.end());
  rest_count_ = rests.size();
  rests_ = TokenTrie(std::move(entries));
}

std::span<const uint32_t> TokenIndex::exits_with(std::string_view content) const {
  const auto found = exits_by_content_.find(content);
  return found == exits_by_content_.end() ? std::span<const uint32_t>() : found->second;
}

std::shared_ptr<const TokenBits> TokenIndex::content_up_to(uint64_t characters, bool plain) const {
  if (content_lengths_.empty() || characters >= content_lengths_.back().first)
    return {std::shared_ptr<const TokenBits>(), &content(plain)};
  const std::scoped_lock lock(mutex_);
  auto& made = by_length_[{characters, plain}];
  if (!made) {
    auto bits = std::make_shared<TokenBits>(content_.size(), 0);
    for (const auto& [length, token] : content_lengths_) {
      if (length > characters) break;
      if (!plain || (plain_content_[token / 64] >> (token % 64) & 1)) set_bit(*bits, token);
    }
    made = std::move(bits);
  }
  return made;
}

}  // namespace butterfly::model::grammar
