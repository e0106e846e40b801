// Text to token ids and back. One row per kind of tokenizer in tokenizer_table.cc.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/metadata/metadata.h"
#include "model/tokenizer/control_rule.h"
#include "model/tokenizer/vocabulary.h"

namespace butterfly::model {

struct EncodeOptions {
  std::optional<bool> add_bos = {};  // empty: as the model file says
  std::optional<bool> add_eos = {};
  // True: control tokens written in the text ("<s>") become their ids. Only for text the program wrote itself
  // (chat templates); what a user typed must not be able to forge them.
  bool parse_special = false;
  // With parse_special: stretches of the text that a user typed, in order and not overlapping; a control
  // token that touches one is plain text all the same. Borrowed for the call.
  std::span<const ByteRange> plain = {};
};

struct DecodeOptions {
  bool show_special = false;  // control tokens as their text instead of nothing
};

// Immutable, so any number of threads may use one.
class Tokenizer {
 public:
  explicit Tokenizer(Vocabulary vocabulary);
  virtual ~Tokenizer() = default;

  // Any bytes are accepted; linear in the text but for a logarithm. Throws Error kUnsupported when the
  // vocabulary has neither a token for some character nor bytes nor an unknown token.
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Throws Error kInvalidArgument for an id outside the vocabulary.
  std::string decode(std::span<const int32_t> ids, const DecodeOptions& options = {}) const;

  // The bytes a token adds to a text, possibly part of a character; empty for control tokens.
  virtual std::string_view piece(int32_t id) const = 0;
  // The token as written in the vocabulary: "<s>", "▁the", "<0x0A>".
  std::string_view token_text(int32_t id) const;
  std::optional<int32_t> find_token(std::string_view text) const;  // by that text

  // True if a text begins with a space that is not part of it (SentencePiece's dummy prefix); decode()
  // removes it.
  virtual bool adds_space_prefix() const { return false; }

  size_t vocab_size() const { return vocabulary_.size(); }
  TokenType type(int32_t id) const { return vocabulary_.types[check_id(id)]; }
  std::optional<int32_t> bos() const { return vocabulary_.bos; }
  std::optional<int32_t> eos() const { return vocabulary_.eos; }
  std::optional<int32_t> eot() const { return vocabulary_.eot; }
  bool adds_bos() const { return add_bos_; }
  bool adds_eos() const { return add_eos_; }
  // Ids at which generation ends: eos, eot and eom, and control tokens known to close a turn (<|im_end|>,
  // ...).
  bool is_end_of_generation(int32_t id) const { return end_of_generation_[check_id(id)]; }
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  // Appends the ids of `text` between BOS and EOS.
  virtual void encode_text(std::string_view text, const ControlRule& control,
                           std::vector<int32_t>& ids) const = 0;
  size_t check_id(int32_t id) const;

  Vocabulary vocabulary_;
  bool add_bos_ = false;
  bool add_eos_ = false;

 private:
  std::vector<bool> end_of_generation_;
};

// One kind of tokenizer, chosen by tokenizer.ggml.model.
struct TokenizerModel {
  std::string_view name;                                         // as in GGUF: "llama"
  std::string_view words;                                        // for people
  std::unique_ptr<Tokenizer> (*make)(const Metadata& metadata);  // null: not supported yet
};
std::span<const TokenizerModel> tokenizer_models();

// Throws Error: kNotFound when the file has no tokenizer, kUnsupported for an unknown kind, kCorrupt for a
// bad vocabulary.
std::unique_ptr<Tokenizer> make_tokenizer(const Metadata& metadata);

}  // namespace butterfly::model
