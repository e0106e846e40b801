// The tokens of a model: texts, scores, types and special ids, checked against each other.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/metadata/metadata.h"

namespace butterfly::model {

inline constexpr std::string_view kSpaceMark = "\xe2\x96\x81";  // U+2581: how SentencePiece writes a space

// Numbered as in GGUF's tokenizer.ggml.token_type.
enum class TokenType : uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // <s>, <|im_end|>: never part of plain text
  kUserDefined = 4,  // always matched literally
  kUnused = 5,
  kByte = 6,  // <0x41>
};

// How a special token is found in a text; Hugging Face's lstrip, rstrip and single_word. kAfterSpace: by its
// normalised text, which begins with a space (normalized: true under a normalizer that prepends one): the
// space in front of it, or the one before every text, is part of it, and without one it is plain text.
enum TokenFlag : uint8_t { kStripLeft = 1, kStripRight = 2, kSingleWord = 4, kAfterSpace = 8 };

// Rules of a tokenizer.json that GGUF's keys cannot say, kept in a key of our own so that a converted file
// gives the same ids as the folder it came from. Files without the key follow llama.cpp.
struct TokenizerRules {
  bool nfc = false;           // normal form C before anything else but special tokens
  bool original_pre = false;  // the pre-tokenizer's own expressions instead of llama.cpp's
  bool merge_ranks = false;   // SentencePiece-style BPE by the rank of merges instead of scores
  bool prefix_first = false;  // the space prefix only before the text, not after each special token
};
inline constexpr std::string_view kRulesKey = "tokenizer.butterfly.rules";  // words, separated by spaces
inline constexpr std::string_view kFlagsKey = "tokenizer.butterfly.token_flags";
// In memory only: why a folder's tokenizer cannot be used. Such a model can be looked at, not run.
inline constexpr std::string_view kTokenizerWhyNotKey = "tokenizer.butterfly.why_not";

struct Vocabulary {
  std::vector<std::string> texts;  // as in the file
  std::vector<float> scores;       // zeros when the file has none
  std::vector<TokenType> types;    // kNormal when the file has none
  std::optional<int32_t> bos, eos, eot, eom, unknown, padding, separator, cls;
  std::optional<bool> add_bos, add_eos, add_space_prefix;  // empty when the file does not say
  std::vector<uint8_t> flags;                              // of TokenFlag, one per token; empty: none set
  TokenizerRules rules;
  std::string source;  // file name for messages

  size_t size() const { return texts.size(); }
  uint8_t flags_of(int32_t id) const { return flags.empty() ? 0 : flags[static_cast<size_t>(id)]; }

  // From tokenizer.ggml.* keys. Throws Error (kNotFound, kCorrupt) for missing or unequal arrays, an unknown
  // type, a score that is no number, a special id outside the vocabulary, and a llama.vocab_size that
  // disagrees.
  static Vocabulary read(const Metadata& metadata);
};

}  // namespace butterfly::model
