#include "model/tokenizer/bpe.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "model/tokenizer/bpe_encoder.h"
#include "model/tokenizer/byte_level.h"
#include "model/tokenizer/piece_text.h"
#include "model/tokenizer/unicode_text.h"

namespace butterfly::model {
namespace {

// Literal in a text: their characters are not letters for bytes.
bool is_literal(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUnknown || type == TokenType::kUserDefined;
}

bool is_plain(TokenType type) { return type != TokenType::kControl && type != TokenType::kUnknown; }

}  // namespace

BpeTokenizer::BpeTokenizer(Vocabulary vocabulary, std::span<const std::string> merges,
                           const PreTokenizerRow& pre)
    : Tokenizer(std::move(vocabulary)),
      row_(pre),
      pre_tokenizer_(pre, vocabulary_.rules.original_pre),
      special_(vocabulary_, pre.raw_text),
      symbols_(vocabulary_.size()),
      word_states_(std::make_unique<std::atomic<uint8_t>[]>(vocabulary_.size())) {
  add_bos_ = vocabulary_.add_bos.value_or(pre.add_bos);
  add_eos_ = vocabulary_.add_eos.value_or(pre.add_sep);
  byte_symbols_.fill(-1);
  add_pieces();
  add_merges(merges);
}

std::unique_ptr<Tokenizer> BpeTokenizer::make(const Metadata& metadata) {
  constexpr std::string_view kKey = "tokenizer.ggml.pre";
  const std::string name = metadata.string_or(kKey, "default");
  const PreTokenizerRow* row = find_pre_tokenizer(name);
  if (!row)
    fail(Errc::kUnsupported,
         "{}: key {}: expected a known pre-tokenizer (gpt-2, llama-bpe, qwen2, ...), found '{}'",
         metadata.source(), kKey, printable(name));
  return std::make_unique<BpeTokenizer>(Vocabulary::read(metadata), metadata.strings("tokenizer.ggml.merges"),
                                        *row);
}

std::unique_ptr<Tokenizer> BpeTokenizer::make_gemma4(const Metadata& metadata) {
  Vocabulary vocabulary = Vocabulary::read(metadata);
  if (!vocabulary.add_bos) vocabulary.add_bos = true;
  return std::make_unique<BpeTokenizer>(std::move(vocabulary), metadata.strings("tokenizer.ggml.merges"),
                                        *find_pre_tokenizer("gemma4"));
}

void BpeTokenizer::add_pieces() {
  Vocabulary& v = vocabulary_;
  pieces_.resize(v.size());
  for (size_t i = 0; i < v.size(); ++i) {
    const std::string& text = v.texts[i];
    const int byte = row_.raw_text ? parse_byte_token(text) : -1;
    if (byte >= 0 && !is_literal(v.types[i])) {
      v.types[i] = TokenType::kByte;
      pieces_[i] = static_cast<char>(byte);
      byte_symbols_[static_cast<size_t>(byte)] = static_cast<int32_t>(i);
      continue;
    }
    bool reachable = is_plain(v.types[i]);  // by merges
    if (row_.raw_text) {
      pieces_[i] = with_spaces(text);
    } else if (is_literal(v.types[i]) || !append_from_byte_letters(text, pieces_[i])) {
      pieces_[i] = text;
      // A user-defined token may be the joint of merges too (runs of spaces in some vocabularies).
      reachable = false;
    }
    if (v.types[i] == TokenType::kControl) pieces_[i].clear();
    if (!reachable || pieces_[i].empty()) continue;
    const auto id = static_cast<int32_t>(i);
    symbols_.set(pieces_[i], id);
    piece_bytes_max_ = std::max(piece_bytes_max_, pieces_[i].size());
    if (pieces_[i].size() == 1 && !row_.raw_text)
      byte_symbols_[static_cast<unsigned char>(pieces_[i][0])] = id;
  }
}

int32_t BpeTokenizer::symbol_of(std::string_view bytes) {
  int32_t symbol = symbols_.find(bytes);
  if (symbol >= 0) return symbol;
  symbol = static_cast<int32_t>(vocab_size() + other_texts_.size());
  other_texts_.push_back(std::make_unique<std::string>(bytes));
  symbols_.set(*other_texts_.back(), symbol);
  if (bytes.size() == 1 && !row_.raw_text) byte_symbols_[static_cast<unsigned char>(bytes[0])] = symbol;
  return symbol;
}

void BpeTokenizer::add_merges(std::span<const std::string> merges) {
  ranks_.reserve(merges.size());
  merged_.reserve(merges.size());
  std::string bytes;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t space = merge.find(' ', 1);
    bytes.clear();
    size_t left_size = 0;
    bool good = space != std::string_view::npos && space + 1 < merge.size();
    if (good) {
      const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
      if (row_.raw_text) {
        bytes = with_spaces(left);
        left_size = bytes.size();
        bytes += with_spaces(right);
      } else {
        good = append_from_byte_letters(left, bytes);
        left_size = bytes.size();
        good = good && append_from_byte_letters(right, bytes);
      }
    }
    if (!good)
      fail(Errc::kCorrupt,
           "{}: key tokenizer.ggml.merges: merge {}: expected two texts with a space between, found '{}'",
           vocabulary_.source, rank, printable(merge));
    const int32_t left = symbol_of(std::string_view(bytes).substr(0, left_size));
    const int32_t right = symbol_of(std::string_view(bytes).substr(left_size));
    merged_.push_back(symbol_of(bytes));
    if (ranks_.find(pair_key(left, right)) < 0)  // of equal merges the first
      ranks_.set(pair_key(left, right), static_cast<int32_t>(rank));
  }
}

void BpeTokenizer::encode_text(std::string_view text, const ControlRule& control,
                               std::vector<int32_t>& ids) const {
  BpeEncoder encoder(*this, ids);
  const auto plain = [&](std::string_view stretch) {
    if (vocabulary_.rules.nfc)
      encoder.encode(to_nfc(stretch));
    else
      encoder.encode(stretch);
  };
  special_.split(vocabulary_, text, control, plain, [&](int32_t id) { ids.push_back(id); });
}

}  // namespace butterfly::model
