// For tests: a GGUF model written as the Hugging Face folder it would have come from.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>

#include "model/formats/model_file.h"

namespace butterfly::model::testing {

struct HfWriteOptions {
  std::string class_name;         // "LlamaForCausalLM"
  size_t shards = 1;              // more than 1: model-0000N-of-0000M.safetensors and an index
  std::string prefix = "model.";  // before most names; gpt2's is "transformer." or nothing
};

// Writes config.json, the weights in F32 under Hugging Face's names and in its order of values (heads in
// halves, gpt2's matrices transposed, gemma's norms less one, experts one by one), and tokenizer.json: the
// reverse of what formats/hf_*.cc read, written apart from it. `from` has F32 tensors only.
void write_hf_folder(const ModelFile& from, const std::filesystem::path& folder,
                     const HfWriteOptions& options);

}  // namespace butterfly::model::testing
