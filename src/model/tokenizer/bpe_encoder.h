// BpeTokenizer at work: one call's state and scratch memory.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/tokenizer/bpe.h"
#include "model/tokenizer/merge_symbols.h"

namespace butterfly::model {

// Borrows the tokenizer and appends to the ids of one call. One thread.
class BpeEncoder {
 public:
  BpeEncoder(const BpeTokenizer& tokenizer, std::vector<int32_t>& ids)
      : t_(tokenizer), ids_(ids), words_(tokenizer.pre_tokenizer_) {}

  // Appends the ids of one stretch of plain text.
  void encode(std::string_view text);

 private:
  void encode_word(std::string_view word);
  void merge_word(std::string_view word);
  void cut_into_symbols(std::string_view word);
  void emit(int32_t symbol, std::string_view bytes);

  // A join is its place in the list of merges.
  struct Rules {
    const BpeTokenizer& t;
    int32_t find(int32_t left, int32_t right) const {
      return left < 0 || right < 0 ? -1 : t.ranks_.find(BpeTokenizer::pair_key(left, right));
    }
    void prefetch(int32_t left, int32_t right) const {
      t.ranks_.prefetch(BpeTokenizer::pair_key(left, right));
    }
    uint32_t order(int32_t join) const { return static_cast<uint32_t>(join); }
    int32_t symbol(int32_t join) const { return t.merged_[static_cast<size_t>(join)]; }
  };

  const BpeTokenizer& t_;
  std::vector<int32_t>& ids_;
  PreTokenizer::Session words_;
  std::vector<MergeSymbol> symbols_;  // their marks are where they begin in the word
  SymbolMerger merger_;
};

}  // namespace butterfly::model
