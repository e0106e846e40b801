// The merge loop of SpmTokenizer: one call's state and scratch memory.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/tokenizer/spm.h"

namespace butterfly::model {

class SpmEncoder {
 public:
  SpmEncoder(const SpmTokenizer& tokenizer, std::vector<int32_t>& ids) : t_(tokenizer), ids_(ids) {}

  // Appends the ids of one stretch of plain text, with a space before it if so asked.
  void encode(std::string_view text, bool space_prefix);

 private:
  // Up to this many symbols the best pair is found by looking at all; beyond, by a heap.
  static constexpr size_t kScanMax = 32;

  struct Symbol {
    int32_t id;       // token, or a character without a token of its own
    uint32_t packed;  // its first character; the only one for those that need bytes
  };
  struct Join {  // in the heap
    float score;
    uint32_t left;
    int32_t id;
    bool operator<(const Join& other) const {
      return score < other.score || (score == other.score && left > other.left);
    }
  };

  void add(uint32_t packed, int32_t id);
  void finish_segment();
  void merge_by_scan();
  void merge_by_heap();
  void emit(const Symbol& symbol);
  // A number for joining two symbols, -1 if that is no piece; its score, and the token it makes.
  int32_t join(int32_t left, int32_t right) const {
    return t_.joins_.find(SpmTokenizer::pair_key(static_cast<uint32_t>(left), static_cast<uint32_t>(right)));
  }
  float score(int32_t join) const {
    return t_.merged_.empty() ? t_.vocabulary_.scores[static_cast<size_t>(join)] : -static_cast<float>(join);
  }
  int32_t token_of(int32_t join) const {
    return t_.merged_.empty() ? join : t_.merged_[static_cast<size_t>(join)];
  }

  const SpmTokenizer& t_;
  std::vector<int32_t>& ids_;
  std::vector<Symbol> segment_;
  bool after_unknown_ = false;
  // Scratch of merge_by_heap, kept between segments.
  std::vector<uint32_t> next_, previous_;
  std::vector<int32_t> joined_;
  std::vector<Join> heap_;
};

}  // namespace butterfly::model
