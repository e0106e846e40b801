// Tokenizers as Hugging Face folders carry them (tokenizer.json, SentencePiece's tokenizer.model), turned
// into GGUF's tokenizer.* keys: from there on there is one Tokenizer, so a folder and the GGUF made of it
// give the same ids by construction.
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "model/metadata/metadata.h"
#include "model/tokenizer/tokenizer.h"

namespace butterfly::model {

// Adds tokenizer.ggml.model, pre, tokens, scores, token_type, merges, special ids and flags; where the file
// asks for more than GGUF can say, tokenizer.butterfly.* (see vocabulary.h), which other programs ignore.
//
// `tokenizer_config_json` may be empty; it names bos, eos, unk and pad. If `metadata` has
// <architecture>.vocab_size and it is greater than the number of tokens, unused tokens "[PAD<id>]" fill the
// rest, as the embedding has rows for them.
//
// Throws Error: kCorrupt for text that is no JSON or has not the shape of a tokenizer.json, kUnsupported for
// what this build cannot do exactly (an unknown normalizer, pre-tokenizer or model), naming what was found.
void add_tokenizer_metadata_from_json(const std::string& tokenizer_json,
                                      const std::string& tokenizer_config_json, Metadata& metadata);

// The same for the bytes of a SentencePiece model (BPE or unigram). Pads in the same way.
void add_tokenizer_metadata_from_sentencepiece(std::span<const std::byte> model, Metadata& metadata);

// Straight to a tokenizer. `source` is the file's name for messages.
std::unique_ptr<Tokenizer> tokenizer_from_json(const std::string& tokenizer_json,
                                               const std::string& tokenizer_config_json = {},
                                               const std::string& source = "tokenizer.json");
std::unique_ptr<Tokenizer> tokenizer_from_sentencepiece(std::span<const std::byte> model,
                                                        const std::string& source = "tokenizer.model");

}  // namespace butterfly::model
