// WordPiece (tokenizer.ggml.model = "bert"): BERT and the embedding models built on it.
//
// A text becomes words: white space and punctuation and Chinese characters set them apart, control characters
// go, letters lose case and accents where the file says so. A word is cut greedily into the longest tokens
// from the left, or is one unknown token. In GGUF a token that begins a word has U+2581 before it, instead of
// ## on the others.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model/tokenizer/special_tokens.h"
#include "model/tokenizer/tokenizer.h"

namespace butterfly::model {

// Immutable: any thread.
class WordPieceTokenizer final : public Tokenizer {
 public:
  WordPieceTokenizer(Vocabulary vocabulary, bool lowercase, bool strip_accents);
  static std::unique_ptr<Tokenizer> make(const Metadata& metadata);

  std::string_view piece(int32_t id) const override { return pieces_[check_id(id)]; }
  bool adds_space_prefix() const override { return true; }

 private:
  void encode_text(std::string_view text, const ControlRule& control,
                   std::vector<int32_t>& ids) const override;
  void append_words(std::string_view text, std::vector<int32_t>& ids) const;
  void append_word(std::string_view word, std::vector<int32_t>& ids) const;

  bool lowercase_;
  bool strip_accents_;
  SpecialTokens special_;
  TokenMatcher texts_;
  std::vector<std::string> pieces_;  // what each token adds to a text
};

}  // namespace butterfly::model
