// Byte-level BPE (tokenizer.ggml.model = "gpt2"): GPT-2, Llama 3, Qwen, DeepSeek, Falcon, StarCoder, ...
//
// The pre-tokenizer that tokenizer.ggml.pre names cuts a text into words; inside a word the pair of
// neighbours whose merge stands first in the list is joined (the leftmost of equals), until no pair is in the
// list. Any bytes have tokens, so decoding gives exactly what was encoded.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "model/tokenizer/flat_map.h"
#include "model/tokenizer/pre_tokenizer.h"
#include "model/tokenizer/special_tokens.h"
#include "model/tokenizer/text_map.h"
#include "model/tokenizer/tokenizer.h"

namespace butterfly::model {

// Immutable but for a memo of words that is safe to race on: any thread.
class BpeTokenizer final : public Tokenizer {
 public:
  // `merges` are "left right". Throws Error kCorrupt for a merge of another form.
  BpeTokenizer(Vocabulary vocabulary, std::span<const std::string> merges, const PreTokenizerRow& pre);
  // Throws Error kUnsupported for a pre-tokenizer that is not in the table.
  static std::unique_ptr<Tokenizer> make(const Metadata& metadata);
  // The same for tokenizer.ggml.model = "gemma4": merges of characters, with byte tokens for what is no
  // token; BOS unless the file says otherwise.
  static std::unique_ptr<Tokenizer> make_gemma4(const Metadata& metadata);

  std::string_view piece(int32_t id) const override { return pieces_[check_id(id)]; }
  const PreTokenizerRow& pre_tokenizer() const { return row_; }

 private:
  friend class BpeEncoder;
  void encode_text(std::string_view text, const ControlRule& control,
                   std::vector<int32_t>& ids) const override;
  void add_pieces();
  void add_merges(std::span<const std::string> merges);
  int32_t symbol_of(std::string_view bytes);

  static uint64_t pair_key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }

  const PreTokenizerRow& row_;
  PreTokenizer pre_tokenizer_;
  SpecialTokens special_;
  std::vector<std::string> pieces_;  // what each token adds to a text

  // Symbols are token ids, then numbers from vocab_size() on for texts that are no tokens: they occur between
  // merges only.
  TextMap symbols_;
  std::vector<std::unique_ptr<std::string>> other_texts_;  // of those symbols; they must not move
  std::array<int32_t, 256> byte_symbols_;
  FlatMap ranks_;                // (left symbol, right symbol) -> place in the list
  std::vector<int32_t> merged_;  // by rank: the joint symbol
  size_t piece_bytes_max_ = 0;

  // Whether the merges turn a token's text into just that token: found out when first met, then remembered.
  // Most words are tokens, so most words cost one look-up. Threads may find out twice, with the same result.
  enum WordState : uint8_t { kNotTried, kIsOneToken, kIsSeveral };
  std::unique_ptr<std::atomic<uint8_t>[]> word_states_;
};

}  // namespace butterfly::model
