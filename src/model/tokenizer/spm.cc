#include "model/tokenizer/spm.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "model/tokenizer/piece_text.h"
#include "model/tokenizer/spm_encoder.h"

namespace butterfly::model {
namespace {

bool joins_characters(TokenType type) {
  return type == TokenType::kNormal || type == TokenType::kUserDefined || type == TokenType::kUnused ||
         type == TokenType::kUndefined;
}

// A file that does not name them means Llama's ids, if the tokens there are of the right type.
Vocabulary with_usual_ids(Vocabulary v) {
  const auto assume = [&](std::optional<int32_t>& id, size_t usual, TokenType type) {
    if (!id && usual < v.size() && v.types[usual] == type) id = static_cast<int32_t>(usual);
  };
  assume(v.unknown, 0, TokenType::kUnknown);
  assume(v.bos, 1, TokenType::kControl);
  assume(v.eos, 2, TokenType::kControl);
  return v;
}

}  // namespace

SpmTokenizer::SpmTokenizer(Vocabulary vocabulary, std::span<const std::string> merges)
    : Tokenizer(with_usual_ids(std::move(vocabulary))) {
  symbol_count_ = static_cast<int32_t>(vocabulary_.size());
  ascii_symbols_.fill(-1);
  byte_tokens_.fill(-1);
  add_bos_ = vocabulary_.add_bos.value_or(true);
  add_eos_ = vocabulary_.add_eos.value_or(false);
  space_prefix_ = vocabulary_.add_space_prefix.value_or(true);
  find_byte_tokens();
  add_pieces(merges);
  special_ = SpecialTokens(vocabulary_, /*space_marks=*/true);
}

std::unique_ptr<Tokenizer> SpmTokenizer::make(const Metadata& metadata) {
  Vocabulary vocabulary = Vocabulary::read(metadata);
  std::span<const std::string> merges;
  if (vocabulary.rules.merge_ranks) merges = metadata.strings("tokenizer.ggml.merges");
  return std::make_unique<SpmTokenizer>(std::move(vocabulary), merges);
}

void SpmTokenizer::find_byte_tokens() {
  Vocabulary& v = vocabulary_;
  for (size_t i = 0; i < v.size(); ++i) {
    const int byte = parse_byte_token(v.texts[i]);
    if (v.types[i] == TokenType::kByte && byte < 0)
      fail(Errc::kCorrupt, "{}: token {}: expected a byte token <0x00> to <0xFF>, found {}", v.source, i,
           printable(v.texts[i]));
    // Files without types still mean bytes by this form.
    const bool means_byte = v.types[i] == TokenType::kByte || v.types[i] == TokenType::kNormal;
    if (byte < 0 || !means_byte) continue;
    v.types[i] = TokenType::kByte;
    byte_tokens_[static_cast<size_t>(byte)] = static_cast<int32_t>(i);
  }
}

uint32_t SpmTokenizer::pack(std::string_view character) {
  uint32_t packed = 0;
  for (const char c : character) packed = packed << 8 | static_cast<unsigned char>(c);
  return packed;
}

int32_t SpmTokenizer::add_character(uint32_t packed) {
  int32_t symbol = symbols_.find(packed);
  if (symbol < 0) {
    symbol = symbol_count_++;
    symbols_.set(packed, symbol);
    if (packed < ascii_symbols_.size()) ascii_symbols_[packed] = symbol;
  }
  return symbol;
}

void SpmTokenizer::add_pieces(std::span<const std::string> merges) {
  const Vocabulary& v = vocabulary_;
  pieces_.resize(v.size());
  std::unordered_map<std::string_view, int32_t> symbol_of;  // every text that can stand between merges
  for (size_t i = 0; i < v.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const std::string_view text = v.texts[i];
    if (v.types[i] == TokenType::kByte) pieces_[i] = static_cast<char>(parse_byte_token(text));
    if (!joins_characters(v.types[i])) continue;
    if (text.size() > kPieceBytesMax)
      fail(Errc::kCorrupt, "{}: token {}: expected at most {} bytes, found {}", v.source, i, kPieceBytesMax,
           text.size());
    pieces_[i] = with_spaces(text);
    if (text.empty()) continue;
    symbol_of[text] = id;  // of equal texts the last is used, as in llama.cpp
    if (std::max<size_t>(utf8_length(text), 1) == text.size()) {
      symbols_.set(pack(text), id);
      if (pack(text) < ascii_symbols_.size()) ascii_symbols_[pack(text)] = id;
    }
  }
  // Now that all single characters that are tokens are known: the others, the neighbours and the joins.
  for (size_t i = 0; i < v.size(); ++i) {
    const std::string_view text = v.texts[i];
    if (!joins_characters(v.types[i]) || text.empty()) continue;
    uint32_t before = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t length = std::max<size_t>(utf8_length(text.substr(at)), 1);
      const std::string_view character = text.substr(at, length);
      const uint32_t packed = pack(character);
      symbol_of.emplace(character, add_character(packed));
      if (at > 0) neighbours_.set(pair_key(before, packed), 0);
      before = packed;
      at += length;
    }
  }
  if (v.rules.merge_ranks)
    add_merges(merges, symbol_of);
  else
    add_joins(symbol_of);
}

void SpmTokenizer::add_joins(const std::unordered_map<std::string_view, int32_t>& symbol_of) {
  const Vocabulary& v = vocabulary_;
  for (size_t i = 0; i < v.size(); ++i) {
    const std::string_view text = v.texts[i];
    if (!joins_characters(v.types[i]) || text.empty() || symbol_of.at(text) != static_cast<int32_t>(i))
      continue;
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const auto left = symbol_of.find(text.substr(0, cut));
      if (left == symbol_of.end()) continue;
      const auto right = symbol_of.find(text.substr(cut));
      if (right == symbol_of.end()) continue;
      joins_.set(pair_key(static_cast<uint32_t>(left->second), static_cast<uint32_t>(right->second)),
                 static_cast<int32_t>(i));
    }
  }
}

void SpmTokenizer::add_merges(std::span<const std::string> merges,
                              const std::unordered_map<std::string_view, int32_t>& symbol_of) {
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t space = std::min(merge.find(' ', 1), merge.size());
    const std::string_view right_text = merge.substr(std::min(space + 1, merge.size()));
    const auto left = symbol_of.find(merge.substr(0, space));
    const auto right = symbol_of.find(right_text);
    const auto joint = symbol_of.find(std::string(merge.substr(0, space)).append(right_text));
    if (left == symbol_of.end() || right == symbol_of.end() || joint == symbol_of.end() ||
        static_cast<size_t>(joint->second) >= vocab_size())
      fail(Errc::kCorrupt,
           "{}: key tokenizer.ggml.merges: merge {}: expected two tokens that make a third, found '{}'",
           vocabulary_.source, rank, printable(merge));
    merged_.push_back(joint->second);
    const uint64_t key = pair_key(static_cast<uint32_t>(left->second), static_cast<uint32_t>(right->second));
    if (joins_.find(key) < 0) joins_.set(key, static_cast<int32_t>(rank));  // of equal merges the first
  }
}

void SpmTokenizer::encode_text(std::string_view text, const ControlRule& control,
                               std::vector<int32_t>& ids) const {
  SpmEncoder encoder(*this, ids);
  special_.split_prefixed(
      vocabulary_, text, control, space_prefix_,
      [&](std::string_view stretch, bool prefixed) { encoder.encode(stretch, prefixed); }, ids);
}

}  // namespace butterfly::model
