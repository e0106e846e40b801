// Runs that train an adapter: what it starts from, what of it is written, and what machines need of it.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "train/networks/lora_transformer.h"
#include "train/task/config.h"

namespace butterfly::train {

// In the output folder.
inline constexpr const char* kAdapterFile = "adapter.gguf";
inline constexpr const char* kAdapterFolder = "adapter";

// The base with a fresh adapter, or with the one that lora_model_dir names. Throws Error in the config's
// words. `packed` as LoraTransformer takes it.
std::unique_ptr<LoraTransformer> open_lora(const TrainConfig& config, const model::ModelFile& base,
                                           model::PackedWeights* packed = nullptr);

// Hexadecimal digits that differ for files of other weights: of names, types and shapes, and of both ends of
// every tensor. Reads them.
std::string base_fingerprint(const model::ModelFile& base);

// adapter.gguf and, where Hugging Face's model has a place for every matrix, adapter/ for PEFT. Returns the
// first. Throws Error naming a value that is not finite.
std::filesystem::path write_adapter(const LoraTransformer& network, const TrainConfig& config,
                                    const std::filesystem::path& folder);

// For another machine: the adapter as it is now and which base it is for. The base itself is not in it.
// `keys` are added to its metadata.
void write_lora_network(const LoraTransformer& network, const std::filesystem::path& file,
                        std::map<std::string, std::string> keys = {});
bool is_lora_network(const model::ModelFile& written);
// There: the base is found under its path or that of the config, and must be the same. Throws Error kNotFound
// saying where it was looked for.
model::ModelFile find_lora_base(const TrainConfig& config, const model::ModelFile& written);
// `range`: a stage of it; none: the whole.
std::unique_ptr<LoraTransformer> open_lora_network(const TrainConfig& config, const model::ModelFile& written,
                                                   const model::ModelFile& base,
                                                   std::optional<model::LayerRange> range);
std::unique_ptr<LoraTransformer> open_lora_network(const TrainConfig& config,
                                                   const model::ModelFile& written);

}  // namespace butterfly::train
