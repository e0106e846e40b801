// SpmTokenizer at work: one call's state and scratch memory.
#pragma once
#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/tokenizer/merge_symbols.h"
#include "model/tokenizer/spm.h"

namespace butterfly::model {

// Borrows the tokenizer and appends to the ids of one call. One thread.
class SpmEncoder {
 public:
  SpmEncoder(const SpmTokenizer& tokenizer, std::vector<int32_t>& ids) : t_(tokenizer), ids_(ids) {}

  // Appends the ids of one stretch of plain text, with a space before it if so asked.
  void encode(std::string_view text, bool space_prefix);

 private:
  void add(uint32_t packed, int32_t id);
  void finish_segment();
  void emit(const MergeSymbol& symbol);

  // A join is the token it makes, or its place in the list of merges where the vocabulary's rules say so.
  struct Rules {
    const SpmTokenizer& t;
    int32_t find(int32_t left, int32_t right) const {
      return t.joins_.find(SpmTokenizer::pair_key(static_cast<uint32_t>(left), static_cast<uint32_t>(right)));
    }
    void prefetch(int32_t left, int32_t right) const {
      t.joins_.prefetch(SpmTokenizer::pair_key(static_cast<uint32_t>(left), static_cast<uint32_t>(right)));
    }
    uint32_t order(int32_t join) const {
      const auto index = static_cast<size_t>(join);
      return t.merged_.empty() ? falling(t.vocabulary_.scores[index]) : static_cast<uint32_t>(join);
    }
    int32_t symbol(int32_t join) const {
      return t.merged_.empty() ? join : t.merged_[static_cast<size_t>(join)];
    }
  };
  // Numbers in the reverse order of the scores, equal for equal ones.
  static uint32_t falling(float score) {
    const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 and 0 are equal
    return bits >> 31 ? bits : ~(bits | 0x80000000u);
  }

  const SpmTokenizer& t_;
  std::vector<int32_t>& ids_;
  // Marks are first characters, packed: the only one of a symbol that needs bytes.
  std::vector<MergeSymbol> segment_;
  bool after_unknown_ = false;
  SymbolMerger merger_;
};

}  // namespace butterfly::model
