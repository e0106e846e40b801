// SentencePiece unigram (tokenizer.ggml.model = "t5"): T5, XLM-R and their relatives.
//
// Of all ways to cut a text into pieces the one with the greatest sum of scores (Viterbi). Characters in no
// piece become bytes where the vocabulary has them, else the unknown token, one for a run of them. Before
// that the character map is applied, spaces become U+2581 and, if the file says so, extra ones go.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "model/tokenizer/chars_map.h"
#include "model/tokenizer/special_tokens.h"
#include "model/tokenizer/tokenizer.h"

namespace butterfly::model {

// Immutable: any thread.
class UnigramTokenizer final : public Tokenizer {
 public:
  UnigramTokenizer(Vocabulary vocabulary, CharsMap chars_map, bool remove_extra_spaces);
  static std::unique_ptr<Tokenizer> make(const Metadata& metadata);

  std::string_view piece(int32_t id) const override { return pieces_[check_id(id)]; }
  bool adds_space_prefix() const override { return space_prefix_; }

 private:
  void encode_text(std::string_view text, const ControlRule& control,
                   std::vector<int32_t>& ids) const override;
  std::string normalize(std::string_view text, bool space_prefix) const;
  void append_best(std::string_view text, std::vector<int32_t>& ids) const;
  void append_unknown(std::string_view character, std::vector<int32_t>& ids, bool& after_unknown) const;

  CharsMap chars_map_;
  bool space_prefix_ = true;
  bool remove_extra_spaces_ = false;
  SpecialTokens special_;
  TokenMatcher texts_;
  double unknown_score_ = 0;
  std::array<int32_t, 256> byte_tokens_;  // -1: none
  std::vector<std::string> pieces_;       // what each token adds to a text
};

}  // namespace butterfly::model
