#include "model/tokenizer/bpe_encoder.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "model/tokenizer/utf8.h"

namespace butterfly::model {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
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
  if (symbols_.size() > kScanMax)
    merge_by_heap();
  else if (symbols_.size() > 1)
    merge_by_scan();
  for (size_t i = 0; i < symbols_.size(); ++i) {
    const size_t begin = symbols_[i].begin;
    const size_t end = i + 1 < symbols_.size() ? symbols_[i + 1].begin : word.size();
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

void BpeEncoder::merge_by_scan() {
  int32_t ranks[kScanMax];  // of joining i and i + 1, -1 if that is no merge
  size_t count = symbols_.size();
  for (size_t i = 0; i + 1 < count; ++i) ranks[i] = rank(symbols_[i].id, symbols_[i + 1].id);
  while (true) {
    size_t best = count;
    uint32_t best_rank = kNone;
    for (size_t i = 0; i + 1 < count; ++i) {
      const auto candidate = static_cast<uint32_t>(ranks[i]);  // -1 becomes the greatest
      if (candidate < best_rank) {
        best_rank = candidate;
        best = i;
      }
    }
    if (best == count) break;
    symbols_[best].id = t_.merged_[best_rank];
    --count;
    for (size_t i = best + 1; i < count; ++i) {
      symbols_[i] = symbols_[i + 1];
      ranks[i] = ranks[i + 1];  // the last one reads a stale entry that is never looked at
    }
    if (best > 0) ranks[best - 1] = rank(symbols_[best - 1].id, symbols_[best].id);
    if (best + 1 < count) ranks[best] = rank(symbols_[best].id, symbols_[best + 1].id);
  }
  symbols_.resize(count);
}

// A linked list of symbols and a heap of possible joins. A join whose symbols have changed since it was
// pushed is recognised by ranks_[left], which always names the join of `left` and what follows it now.
void BpeEncoder::merge_by_heap() {
  const size_t count = symbols_.size();
  next_.resize(count);
  previous_.resize(count);
  ranks_.assign(count, -1);
  heap_.clear();
  for (size_t i = 0; i < count; ++i) {
    next_[i] = i + 1 < count ? static_cast<uint32_t>(i + 1) : kNone;
    previous_[i] = i > 0 ? static_cast<uint32_t>(i - 1) : kNone;
  }
  const auto look = [&](uint32_t left) {
    ranks_[left] = next_[left] == kNone ? -1 : rank(symbols_[left].id, symbols_[next_[left]].id);
    if (ranks_[left] >= 0) heap_.push_back({ranks_[left], left});
    return ranks_[left] >= 0;
  };
  for (size_t i = 0; i + 1 < count; ++i) look(static_cast<uint32_t>(i));
  std::make_heap(heap_.begin(), heap_.end());
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Join best = heap_.back();
    heap_.pop_back();
    if (ranks_[best.left] != best.rank) continue;
    const uint32_t right = next_[best.left];
    symbols_[best.left].id = t_.merged_[static_cast<size_t>(best.rank)];
    ranks_[right] = -1;
    next_[best.left] = next_[right];
    if (next_[right] != kNone) previous_[next_[right]] = best.left;
    if (previous_[best.left] != kNone && look(previous_[best.left]))
      std::push_heap(heap_.begin(), heap_.end());
    if (look(best.left)) std::push_heap(heap_.begin(), heap_.end());
  }
  size_t kept = 0;
  for (uint32_t i = 0; i != kNone; i = next_[i]) symbols_[kept++] = symbols_[i];
  symbols_.resize(kept);
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
