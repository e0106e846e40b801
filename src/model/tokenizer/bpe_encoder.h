// The merge loop of BpeTokenizer: one call's state and scratch memory.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/tokenizer/bpe.h"

namespace butterfly::model {

class BpeEncoder {
 public:
  BpeEncoder(const BpeTokenizer& tokenizer, std::vector<int32_t>& ids)
      : t_(tokenizer), ids_(ids), words_(tokenizer.pre_tokenizer_) {}

  // Appends the ids of one stretch of plain text.
  void encode(std::string_view text);

 private:
  // Up to this many symbols the best pair is found by looking at all; beyond, by a heap.
  static constexpr size_t kScanMax = 48;

  struct Symbol {
    int32_t id;
    uint32_t begin;  // in the word; it ends where the next begins
  };
  struct Join {  // in the heap
    int32_t rank;
    uint32_t left;
    bool operator<(const Join& other) const {  // the heap's top is the greatest
      return rank > other.rank || (rank == other.rank && left > other.left);
    }
  };

  void encode_word(std::string_view word);
  void merge_word(std::string_view word);
  void cut_into_symbols(std::string_view word);
  void merge_by_scan();
  void merge_by_heap();
  void emit(int32_t symbol, std::string_view bytes);
  int32_t rank(int32_t left, int32_t right) const {
    if (left < 0 || right < 0) return -1;
    return t_.ranks_.find(BpeTokenizer::pair_key(left, right));
  }

  const BpeTokenizer& t_;
  std::vector<int32_t>& ids_;
  PreTokenizer::Session words_;
  std::vector<Symbol> symbols_;
  // Scratch of merge_by_heap, kept between words.
  std::vector<uint32_t> next_, previous_;
  std::vector<int32_t> ranks_;
  std::vector<Join> heap_;
};

}  // namespace butterfly::model
