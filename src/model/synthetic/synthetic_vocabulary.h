// A made-up vocabulary for random models: bytes, characters and pronounceable syllables that merge into
// words.
#pragma once
#include <cstdint>

#include "model/metadata/metadata.h"

namespace butterfly::model {

inline constexpr uint32_t kSyntheticVocabularyMin = 3 + 256;  // <unk>, <s>, </s> and the bytes

// Adds the tokenizer.ggml.* keys of a SentencePiece vocabulary with exactly `size` tokens, the same on every
// machine. Any text can be written with it, because every byte has a token. Throws Error kInvalidArgument
// when `size` is below kSyntheticVocabularyMin or above 2,000,000.
void add_synthetic_vocabulary(Metadata& metadata, uint32_t size);

}  // namespace butterfly::model
