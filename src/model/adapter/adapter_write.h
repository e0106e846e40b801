// Adapters as files: GGUF for llama.cpp and Butterfly, a folder for PEFT.
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "model/adapter/adapter.h"

namespace butterfly::model {

// Values as F32, so that they come back bit for bit. A GGUF file knows no rsLoRA: its alpha is then the one
// that gives the same factor. `keys` are added to the metadata. Written whole or not at all.
void write_gguf_adapter(const std::filesystem::path& path, const Adapter& adapter, const ModelFile& base,
                        const std::map<std::string, std::string>& keys = {});

struct PeftOptions {
  float dropout = 0;
  std::string base_name;  // base_model_name_or_path
};
// What keeps this adapter from being PEFT's, in words; empty: nothing.
std::string why_no_peft(const Adapter& adapter, const ModelFile& base);
// adapter_config.json and adapter_model.safetensors, rows as Hugging Face's model has them. Throws Error
// kUnsupported for a matrix that is no module of its own there.
void write_peft_adapter(const std::filesystem::path& folder, const Adapter& adapter, const ModelFile& base,
                        const PeftOptions& options);

}  // namespace butterfly::model
