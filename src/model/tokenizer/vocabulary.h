// The tokens of a model: texts, scores, types and special ids, checked against each other.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/formats/metadata.h"

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

struct Vocabulary {
  std::vector<std::string> texts;  // as in the file
  std::vector<float> scores;       // zeros when the file has none
  std::vector<TokenType> types;    // kNormal when the file has none
  std::optional<int32_t> bos, eos, eot, eom, unknown, padding;
  std::optional<bool> add_bos, add_eos, add_space_prefix;  // empty when the file does not say
  std::string source;                                      // file name for messages

  size_t size() const { return texts.size(); }

  // From tokenizer.ggml.* keys. Throws Error (kNotFound, kCorrupt) for missing or unequal arrays, an unknown
  // type, a score that is no number, a special id outside the vocabulary, and a llama.vocab_size that
  // disagrees.
  static Vocabulary read(const Metadata& metadata);
};

}  // namespace butterfly::model
