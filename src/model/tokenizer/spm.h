// SentencePiece-style BPE with byte fallback (tokenizer.ggml.model = "llama"): Llama 1 and 2, Mistral,
// TinyLlama, Gemma.
//
// Characters are joined pairwise, the pair whose joint piece has the highest score first (the leftmost of
// equals), until no pair is a piece. What is left and no piece becomes bytes, or the unknown token.
//
// Follows SentencePiece and llama.cpp. Where these two differ: control, unknown and byte tokens never come
// out of plain text (as SentencePiece), and a text after a matched special token gets the space prefix again
// (as llama.cpp). Bytes that are no valid UTF-8 are kept as byte tokens one by one.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/tokenizer/flat_map.h"
#include "model/tokenizer/special_tokens.h"
#include "model/tokenizer/tokenizer.h"

namespace butterfly::model {

// Immutable: any thread.
class SpmTokenizer final : public Tokenizer {
 public:
  // Throws Error kCorrupt for byte tokens that are not <0xNN> and pieces longer than kPieceBytesMax.
  // `merges` ("left right") are used where the vocabulary's rules say that they decide instead of scores.
  explicit SpmTokenizer(Vocabulary vocabulary, std::span<const std::string> merges = {});
  static std::unique_ptr<Tokenizer> make(const Metadata& metadata);

  // Real pieces have at most some hundred bytes. Set-up looks at every split of every piece.
  static constexpr size_t kPieceBytesMax = 1024;

  std::string_view piece(int32_t id) const override { return pieces_[check_id(id)]; }
  bool adds_space_prefix() const override { return space_prefix_; }

 private:
  friend class SpmEncoder;
  void encode_text(std::string_view text, const ControlRule& control,
                   std::vector<int32_t>& ids) const override;
  void find_byte_tokens();
  void add_pieces(std::span<const std::string> merges);
  void add_joins(const std::unordered_map<std::string_view, int32_t>& symbol_of);
  void add_merges(std::span<const std::string> merges,
                  const std::unordered_map<std::string_view, int32_t>& symbol_of);
  int32_t add_character(uint32_t packed);

  // A character as one number: its bytes, first byte highest.
  static uint32_t pack(std::string_view character);
  static uint64_t pair_key(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

  // Symbols are token ids, then numbers from vocab_size() on for characters that occur only inside longer
  // pieces.
  std::array<int32_t, 128> ascii_symbols_;  // -1: in no piece
  FlatMap symbols_;                         // packed character -> symbol
  FlatMap joins_;                           // (left symbol, right symbol) -> token
  // (character, character) -> 0 if some piece has them side by side. Between any others no piece can reach
  // across, so a text can be cut there and the parts done alone with the same result.
  FlatMap neighbours_;
  int32_t symbol_count_ = 0;
  bool space_prefix_ = true;
  std::array<int32_t, 256> byte_tokens_;  // -1: none
  std::vector<std::string> pieces_;       // what each token adds to a text
  SpecialTokens special_;
  // Only with the rule merge_ranks: what joins_ holds is then the place of a merge in the file's list, and
  // this the token it makes.
  std::vector<int32_t> merged_;
};

}  // namespace butterfly::model
