#include "model/tokenizer/token_places.h"

#include <algorithm>

namespace butterfly::model {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";

size_t character_bytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

// How much of `rest` the token stands for; nothing when it cannot begin here.
std::optional<size_t> bytes_here(const Tokenizer& tokenizer, int32_t id, std::string_view rest, bool first) {
  const std::string_view piece = tokenizer.piece(id);
  if (!piece.empty() && rest.starts_with(piece)) return piece.size();
  const std::string_view spelled = tokenizer.token_text(id);
  const TokenType type = tokenizer.type(id);
  if (type == TokenType::kUnknown)
    return rest.empty() ? std::nullopt : std::optional(std::min(rest.size(), character_bytes(rest[0])));
  if (piece.empty() || type == TokenType::kControl || type == TokenType::kUserDefined) {
    if (rest.starts_with(spelled)) return spelled.size();
    if (first && type == TokenType::kControl) return 0;  // beginning of text, which the encoder added
  }
  if (piece.starts_with(' ') && rest.starts_with(piece.substr(1))) return piece.size() - 1;
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<ByteRange>> token_places(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                                   std::string_view text) {
  std::vector<ByteRange> places;
  size_t at = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    std::optional<size_t> bytes = bytes_here(tokenizer, ids[i], text.substr(at), i == 0);
    if (!bytes) {
      const size_t dark = std::min(text.find_first_not_of(kWhiteSpace, at), text.size());
      bytes = bytes_here(tokenizer, ids[i], text.substr(dark), false);
      if (bytes) {
        at = dark;
      } else if (i + 1 == ids.size() && dark == text.size() &&
                 tokenizer.type(ids[i]) == TokenType::kControl) {
        bytes = 0;  // end of text, which the encoder added
      } else {
        return std::nullopt;
      }
    }
    places.push_back({at, at + *bytes});
    at += *bytes;
  }
  if (text.find_first_not_of(kWhiteSpace, at) != std::string_view::npos) return std::nullopt;
  return places;
}

}  // namespace butterfly::model
