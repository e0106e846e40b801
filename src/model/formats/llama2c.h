// llama2.c checkpoints (.bin: legacy version 0 and version 1 in float32, version 2 in int8) and their
// tokenizer files.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "model/formats/model_file.h"
#include "model/metadata/metadata.h"

namespace butterfly::model {

// Rows of the model format table. Metadata and tensors get GGUF's names (llama.*, blk.N.attn_q.weight, ...);
// RoPE pairs are interleaved, as in GGUF's llama. Version 0 has no magic: its file length must be exactly
// what its header says.
std::string llama2c_why_not(const ModelSource& source);
ModelFile llama2c_open(const ModelSource& source, const OpenModelOptions& options);

// Reads `vocab_size` pieces of a llama2.c tokenizer file into tokenizer.ggml.* keys of `metadata`. Throws
// Error kCorrupt, also when the file holds more or fewer pieces.
void llama2c_add_tokenizer(const std::filesystem::path& path, uint32_t vocab_size, Metadata& metadata);
void llama2c_parse_tokenizer(std::span<const std::byte> bytes, const std::string& name, uint32_t vocab_size,
                             Metadata& metadata);

}  // namespace butterfly::model
