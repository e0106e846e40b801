#include "model/tokenizer/bpe_encoder.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"

namespace butterfly::model {
namespace {

// Offsets in a word are 32 bits; beyond this a word is done in parts, which no real text reaches.
constexpr size_t kWordBytesMax = size_t{1} << 30;

}  // namespace

void BpeEncoder::encode(std::string_view text) {
  words_.split(text, [this](std::string_view word) {
    for (; word.size() > kWordBytesMax; word.remove_prefix(kWordBytesMax))
      encode_word(word.substr(0, kWordBytesMax));
    encode_word(word);
  });
}

void BpeEncoder::encode_word(std::string_view word) {
  const int32_t whole = word.size() <= t_.piece_bytes_max_ ? t_.symbols_.find(word) : -1;
  const bool is_token = whole >= 0 && static_cast<size_t>(whole) < t_.vocab_size();
  if (!is_token) return merge_word(word);
  if (t_.row_.ignore_merges) return ids_.push_back(whole);
  std::atomic<uint8_t>& state = t_.word_states_[static_cast<size_t>(whole)];
  switch (state.load(std::memory_order_relaxed)) {
    case BpeTokenizer::kIsOneToken:
      return ids_.push_back(whole);
    case BpeTokenizer::kIsSeveral:
      return merge_word(word);
    default:
      break;
  }
  const size_t count_before = ids_.size();
  merge_word(word);
  const bool is_one = ids_.size() == count_before + 1 && ids_.back() == whole;
  state.store(is_one ? BpeTokenizer::kIsOneToken : BpeTokenizer::kIsSeveral, std::memory_order_relaxed);
}

void BpeEncoder::merge_word(std::string_view word) {
  cut_into_symbols(word);
  merger_.merge(symbols_, Rules{t_});
  for (size_t i = 0; i < symbols_.size(); ++i) {
    const size_t begin = symbols_[i].mark;
    const size_t end = i + 1 < symbols_.size() ? symbols_[i + 1].mark : word.size();
    emit(symbols_[i].id, word.substr(begin, end - begin));
  }
}

void BpeEncoder::cut_into_symbols(std::string_view word) {
  symbols_.clear();
  if (!t_.row_.raw_text) {
    for (size_t i = 0; i < word.size(); ++i)
      symbols_.push_back({t_.byte_symbols_[static_cast<unsigned char>(word[i])], static_cast<uint32_t>(i)});
    return;
  }
  for (size_t at = 0; at < word.size();) {
    const size_t length = std::max<size_t>(utf8_length(word.substr(at, 4)), 1);
    symbols_.push_back({t_.symbols_.find(word.substr(at, length)), static_cast<uint32_t>(at)});
    at += length;
  }
}

void BpeEncoder::emit(int32_t symbol, std::string_view bytes) {
  if (symbol >= 0 && static_cast<size_t>(symbol) < t_.vocab_size()) return ids_.push_back(symbol);
  // Only in vocabularies that lack a token for some byte, or for the joint text of a merge.
  for (const char c : bytes) {
    const int32_t id = t_.byte_symbols_[static_cast<unsigned char>(c)];
    if (id >= 0 && static_cast<size_t>(id) < t_.vocab_size())
      ids_.push_back(id);
    else if (t_.vocabulary_.unknown)
      ids_.push_back(*t_.vocabulary_.unknown);
    else
      fail(Errc::kUnsupported, "{}: vocabulary has no token for the byte {:#04x} and no unknown token",
           t_.vocabulary_.source, static_cast<unsigned char>(c));
  }
}

}  // namespace butterfly::model
