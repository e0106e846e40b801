// Where in a text its tokens stand.
#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/tokenizer/byte_range.h"
#include "model/tokenizer/tokenizer.h"

namespace butterfly::model {

// For each of the ids that encode() made of `text` the bytes it stands for, in order: control tokens their
// spelling where the text has it and nothing where the encoder added them; a space that SentencePiece puts
// before a text belongs to no byte, and white space that an encoder drops belongs to no token. Nothing when
// the tokenizer writes a text otherwise than it was (lower case, composed characters).
std::optional<std::vector<ByteRange>> token_places(const Tokenizer& tokenizer, std::span<const int32_t> ids,
                                                   std::string_view text);

}  // namespace butterfly::model
