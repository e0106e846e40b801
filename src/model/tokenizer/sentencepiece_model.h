// SentencePiece's tokenizer.model: a protobuf message, of which a tokenizer needs few fields.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace butterfly::model {

struct SentencePieceModel {
  enum class Kind { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };
  struct Piece {
    std::string text;
    float score = 0;
    int32_t type = 1;  // numbered as TokenType
  };
  std::vector<Piece> pieces;
  Kind kind = Kind::kUnigram;
  int32_t unknown_id = 0, bos_id = 1, eos_id = 2, padding_id = -1;  // -1: none
  std::vector<uint8_t> charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;
  bool spaces_are_suffixes = false;

  // Any bytes are safe. Throws Error kCorrupt that names field, byte, expected and found.
  static SentencePieceModel parse(std::span<const std::byte> bytes, const std::string& source);
};

}  // namespace butterfly::model
