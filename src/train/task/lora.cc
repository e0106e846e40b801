#include "train/task/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/sha256.h"
#include "model/adapter/adapter_write.h"
#include "model/adapter/fresh_adapter.h"
#include "model/arch/adaptable.h"
#include "model/formats/gguf_writer.h"

namespace butterfly::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBasePath = "butterfly.lora.base_path";
constexpr const char* kBaseFingerprint = "butterfly.lora.base_fingerprint";

TransformerOptions options_of(const TrainConfig& config, std::optional<model::LayerRange> range) {
  return {.length = config.sequence_len, .dropout = static_cast<float>(config.dropout), .range = range};
}

std::unique_ptr<LoraTransformer> with_adapter(const TrainConfig& config, const model::ModelFile& base,
                                              model::Adapter adapter, model::PackedWeights* packed = nullptr,
                                              std::optional<model::LayerRange> range = {}) {
  return std::make_unique<LoraTransformer>(
      base, std::move(adapter), options_of(config, range), static_cast<float>(config.lora_dropout),
      config.rl == "dpo" ? static_cast<float>(config.rl_beta) : 0.0f, packed);
}

std::vector<std::string> modules_of(const TrainConfig& config) {
  if (config.lora_target_linear || config.lora_target_modules.empty()) return {"all-linear"};
  return config.lora_target_modules;
}

}  // namespace

std::unique_ptr<LoraTransformer> open_lora(const TrainConfig& config, const model::ModelFile& base,
                                           model::PackedWeights* packed) {
  if (!config.lora_model_dir.empty())
    return with_adapter(config, base, model::open_adapter({config.lora_model_dir, 1}, base), packed);
  return with_adapter(config, base,
                      model::fresh_adapter(base, {.rank = config.lora_r,
                                                  .alpha = static_cast<float>(config.lora_alpha),
                                                  .by_root = config.use_rslora,
                                                  .modules = modules_of(config),
                                                  .takes = model::adaptable_tensors(base),
                                                  .seed = config.seed}),
                      packed);
}

std::string base_fingerprint(const model::ModelFile& base) {
  constexpr size_t kEnd = 32 << 10;  // bytes of either end
  std::string text = base.architecture();
  for (const model::NamedTensor& info : base.tensors()) {
    text += fmt::format("\n{} {} {} ", info.name, info.type_name(), info.shape.to_string());
    const Tensor tensor = base.tensor(info.name);
    MappedFile::guard([&] {
      const std::span<const std::byte> bytes(tensor.raw(), tensor.bytes());
      text += sha256_hex(bytes.first(std::min(kEnd, bytes.size())));
      text += sha256_hex(bytes.last(std::min(kEnd, bytes.size())));
    });
  }
  return sha256_hex(text).substr(0, 32);
}

fs::path write_adapter(const LoraTransformer& network, const TrainConfig& config, const fs::path& folder) {
  for (const auto& [name, tensor] : network.weights())
    for (const float value : std::span(tensor.data<float>(), static_cast<size_t>(tensor.count())))
      if (!std::isfinite(value))
        fail(Errc::kInvalidArgument, "{} holds {}; a smaller learning_rate may help", name, value);
  const fs::path path = folder / kAdapterFile;
  model::write_gguf_adapter(path, network.adapter(), network.base());
  if (model::why_no_peft(network.adapter(), network.base()).empty())
    model::write_peft_adapter(
        folder / kAdapterFolder, network.adapter(), network.base(),
        {.dropout = static_cast<float>(config.lora_dropout),
         .base_name = network.base().metadata().string_or("general.name", config.base_model)});
  return path;
}

void write_lora_network(const LoraTransformer& network, const fs::path& file,
                        std::map<std::string, std::string> keys) {
  keys[kBasePath] = fs::absolute(network.base().path()).string();
  keys[kBaseFingerprint] = base_fingerprint(network.base());
  model::write_gguf_adapter(file, network.adapter(), network.base(), keys);
}

bool is_lora_network(const model::ModelFile& written) {
  return written.metadata().find(kBasePath) != nullptr;
}

model::ModelFile find_lora_base(const TrainConfig& config, const model::ModelFile& written) {
  const std::string there = written.metadata().string(kBasePath),
                    expected = written.metadata().string(kBaseFingerprint);
  std::string looked;
  for (const fs::path& path : {fs::path(there), fs::path(config.base_model)}) {
    std::error_code error;
    if (!fs::exists(path, error)) {
      looked += fmt::format("{}{}: is not there", looked.empty() ? "" : "; ", path.string());
      continue;
    }
    model::ModelFile base = model::open_model(path);
    if (const std::string found = base_fingerprint(base); found != expected) {
      looked += fmt::format("{}{}: is another model ({}, expected {})", looked.empty() ? "" : "; ",
                            path.string(), found, expected);
      continue;
    }
    return base;
  }
  fail(Errc::kNotFound, "the base model of this adapter: {}; copy the file to every node", looked);
}

std::unique_ptr<LoraTransformer> open_lora_network(const TrainConfig& config, const model::ModelFile& written,
                                                   const model::ModelFile& base,
                                                   std::optional<model::LayerRange> range) {
  return with_adapter(config, base, model::read_gguf_adapter({written.path(), 1}, written, base), nullptr,
                      range);
}

std::unique_ptr<LoraTransformer> open_lora_network(const TrainConfig& config,
                                                   const model::ModelFile& written) {
  return open_lora_network(config, written, find_lora_base(config, written), {});
}

}  // namespace butterfly::train
